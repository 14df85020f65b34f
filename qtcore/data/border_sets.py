"""Border ownership as datasets: made from MNIST as in the paper, or from drawn glyphs."""

from torch import Tensor

from qtcore.data import glyphs, mnist
from qtcore.data.border import CONTOUR, IN, N_SPURIOUS, P_MISSING, add_noise, border_labels, emission_of
from qtcore.data.checks import Check, Findings, shapes
from qtcore.data.dataset import Dataset
from qtcore.data.reading import fingerprint
from qtcore.data.specification import Specification

SHAPE = (mnist.SIDE + 2, mnist.SIDE + 2)  # a frame of one pixel
LABELS = "086f78ea6cc2006f2d6a1b9081bd7b9ef439205291e2819bee36e6bc2e67ee50"  # `fingerprint` of all label images
SPURIOUS = (0.033, 0.001)  # p(on | OUT)
KEPT = (0.8, 0.002)  # share of the contours that the noise leaves


def load_border(p_missing: float = P_MISSING, n_spurious: int = N_SPURIOUS, seed: int = 0) -> Dataset:
    """Border ownership from MNIST, one image per digit; the last 5,000 training digits are `valid`."""
    return _from_images("border", mnist.load_mnist(), p_missing, n_spurious, seed)


def load_border_glyphs(p_missing: float = P_MISSING, n_spurious: int = N_SPURIOUS, seed: int = 0) -> Dataset:
    """Border ownership from drawn glyphs, for machines without MNIST; `seed` draws glyphs and noise."""
    return _from_images("border-glyphs", glyphs.load_glyphs(seed), p_missing, n_spurious, seed)


def _from_images(name: str, images: Dataset, p_missing: float, n_spurious: int, seed: int) -> Dataset:
    labels = {split: border_labels(part) for split, part in images.splits.items()}
    # A random stream per split, so that no split's noise depends on the size of another one.
    noisy = {
        split: add_noise(part, p_missing, n_spurious, (seed, stream)) for stream, (split, part) in enumerate(labels.items())
    }
    return Dataset(
        name=name,
        kind="grid",
        train=noisy["train"],
        valid=noisy["valid"],
        test=noisy["test"],
        source=images.source,
        note=f"Made from {images.name}, one to one; the labels follow from the images, the noise is drawn with seed {seed}.",
        image_shape=SHAPE,
        statistics={
            "emission": emission_of(noisy["train"], labels["train"], p_missing),
            "p_missing": p_missing,
            "n_spurious": n_spurious,
        },
        truth=labels,
    )


def _noise(spurious: tuple[float, float]) -> Check:
    """Check that the noise has the paper's strength and leaves the inside untouched."""

    def check(data: Dataset, findings: Findings) -> None:
        assert data.truth is not None
        emission = data.statistics["emission"]
        assert isinstance(emission, Tensor)
        kept = data.train[data.truth["train"] == CONTOUR].double().mean().item()
        findings.near("contour kept", kept, KEPT)
        findings.near("p(on | OUT)", emission[1].item(), spurious)
        findings.require(not data.train[data.truth["train"] == IN].any(), "an inside pixel is on")

    return check


def _check_labels(data: Dataset, findings: Findings) -> None:
    assert data.truth is not None
    labels = fingerprint({split: part.numpy() for split, part in data.truth.items()})
    findings.require(labels == LABELS, f"its labels do not follow from MNIST (sha256 {labels})")


BORDER = Specification(
    name="border",
    title="Border",
    kind="grid",
    origin="made from mnist",
    load=load_border,
    checks=(shapes(mnist.ROWS, SHAPE), _noise(SPURIOUS), _check_labels),
    files=mnist.FILES,
    image_shape=SHAPE,
)

BORDER_GLYPHS = Specification(
    name="border-glyphs",
    title="Border of glyphs",
    kind="grid",
    origin="drawn when loaded",
    load=load_border_glyphs,
    checks=(shapes(tuple(glyphs.N_ROWS.values()), SHAPE), _noise((SPURIOUS[0], 5 * SPURIOUS[1]))),
    source="stand-in",
    image_shape=SHAPE,
)
