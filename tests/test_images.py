"""python -m qtcore.infer with images: faces behind a mask, contours of any size, and files that are neither."""

import functools
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import qtcore
from qtcore import GaussianRBM, GridMRF, Query, infer
from qtcore.io import images

from .commands import Command, command  # noqa: F401
from .strategies import build, randomise, rng

HEIGHT, WIDTH = 7, 5


def face_model() -> GaussianRBM:
    model: GaussianRBM = randomise(GaussianRBM(HEIGHT * WIDTH, 3, 4), seed=1, scale=0.1)
    model.image_shape = (HEIGHT, WIDTH)
    model.statistics = {
        "maximum": torch.tensor(238.25),
        "mean": torch.linspace(0.3, 0.7, HEIGHT * WIDTH),
        "deviation": torch.linspace(0.02, 0.25, HEIGHT * WIDTH),
    }
    return model


@pytest.fixture
def run(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:  # noqa: F811
    """infer(*arguments) in a folder with face.safetensors, grid.safetensors, face.png, mask.png and contour.png."""
    monkeypatch.chdir(tmp_path)
    face_model().save("face.safetensors")
    build("GridMRF", scale=0.7).save("grid.safetensors")
    build("GaussianRBM").save("plain.safetensors")
    save("face.png", grey(HEIGHT, WIDTH))
    save("mask.png", 255 * (grey(HEIGHT, WIDTH, seed=1) > 100))
    save("contour.png", 255 * (grey(4, 9, seed=2) > 170))
    return functools.partial(command, infer.main)


def grey(height: int, width: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (height, width))


def save(path: str, pixels: Any, mode: str = "L", **options: Any) -> None:
    Image.fromarray(np.asarray(pixels).astype(np.uint8)).convert(mode).save(path, **options)


def pixels(path: str) -> Any:
    with Image.open(path) as image:
        return np.asarray(image)


# ---------------------------------------------------------------------------------------------------------------------
# Faces


def test_a_face_behind_a_mask(run: Command) -> None:
    result = run("face.safetensors", "face.png", "--mask", "mask.png")
    assert result == (0, "mean.png, deviation.png are in face.marginals.\n", "")
    face, known = grey(HEIGHT, WIDTH), grey(HEIGHT, WIDTH, seed=1) > 100
    model = face_model()
    maximum, mean, deviation = (model.statistics[name].double().numpy() for name in ("maximum", "mean", "deviation"))
    values = ((face.reshape(-1) + 0.5) / maximum - mean) / deviation
    with torch.no_grad():
        answer = model(Query(torch.tensor(values[None]).float(), torch.tensor(known.reshape(1, -1))))
    expected = (answer.mean[0].double().numpy() * deviation + mean) * maximum - 0.5
    shown = pixels("face.marginals/mean.png")
    assert shown.shape == (HEIGHT, WIDTH)
    assert np.abs(shown - expected.reshape(HEIGHT, WIDTH).clip(0, 255)).max() <= 0.5 + 1e-3
    assert (shown == face)[known].all()  # what is known comes back as it was
    assert (shown != face)[~known].any()
    expected = answer.stddev[0].double().numpy() * deviation * maximum * 255 / 64
    shown = pixels("face.marginals/deviation.png")
    assert np.abs(shown - expected.reshape(HEIGHT, WIDTH).clip(0, 255)).max() <= 0.5 + 1e-3
    assert shown[known].max() <= 255 * 0.25 * 238.25 / 64 * 0.0317 < shown[~known].max()  # √ε is what is left of it


def test_what_is_hidden_plays_no_part(run: Command) -> None:
    assert run("face.safetensors", "face.png", "--mask", "mask.png").code == 0
    known = grey(HEIGHT, WIDTH, seed=1) > 100
    save("other.png", np.where(known, grey(HEIGHT, WIDTH), 255 - grey(HEIGHT, WIDTH)))
    assert run("face.safetensors", "other.png", "--mask", "mask.png", "--out", "other").code == 0
    for name in ("mean.png", "deviation.png"):
        assert (pixels(f"face.marginals/{name}") == pixels(f"other/{name}")).all()


def test_layers(run: Command) -> None:
    for layers in (0, 4):
        assert run("face.safetensors", "face.png", "--mask", "mask.png", "--layers", layers, "--out", f"{layers}").code == 0
    assert run("face.safetensors", "face.png", "--mask", "mask.png", "--out", "own").code == 0
    assert (pixels("own/mean.png") == pixels("4/mean.png")).all()
    assert (pixels("own/mean.png") != pixels("0/mean.png")).any()


@pytest.mark.parametrize(("mode", "options"), [("RGB", {}), ("RGBA", {}), ("P", {}), ("LA", {}), ("CMYK", {"format": "TIFF"})])
def test_colours_become_grey(mode: str, options: dict[str, str], run: Command) -> None:
    save("colour.png", grey(HEIGHT, WIDTH), mode, **options)
    assert np.abs(images.read_grey(Path("colour.png")).astype(int) - grey(HEIGHT, WIDTH)).max() <= 1
    save("mask2.tif", 255 * (grey(HEIGHT, WIDTH, seed=1) > 100), "1")
    assert run("face.safetensors", "colour.png", "--mask", "mask2.tif").code == 0


def test_a_mask_is_known_where_it_is_more_white_than_black(run: Command) -> None:
    save("mask.png", np.full((HEIGHT, WIDTH), 127))
    assert not images.read_mask(Path("mask.png"), (HEIGHT, WIDTH)).any()
    save("mask.png", np.full((HEIGHT, WIDTH), 128))
    assert images.read_mask(Path("mask.png"), (HEIGHT, WIDTH)).all()


def test_another_size_is_refused_and_never_distorted_unless_asked(run: Command) -> None:
    save("large.png", np.kron(grey(HEIGHT, WIDTH), np.ones((3, 3))))
    said = run("face.safetensors", "large.png", "--mask", "mask.png").sentence
    assert said == "large.png is 15 pixels wide and 21 high, but 5 wide and 7 high is expected; --fit crops and scales it."
    assert "mask.png" in run("face.safetensors", "face.png", "--mask", "contour.png").sentence.replace("contour", "mask")
    save("large-mask.png", np.kron(255 * (grey(HEIGHT, WIDTH, seed=1) > 100), np.ones((3, 3))))
    assert run("face.safetensors", "large.png", "--mask", "large-mask.png", "--fit").code == 0
    assert pixels("large.marginals/mean.png").shape == (HEIGHT, WIDTH)
    assert torch.equal(
        images.read_mask(Path("large-mask.png"), (HEIGHT, WIDTH), fit=True), images.read_mask(Path("mask.png"), (HEIGHT, WIDTH))
    )


def test_fitting_cuts_the_middle_out(run: Command) -> None:
    wide = np.zeros((2 * HEIGHT, 6 * WIDTH))
    wide[:, 2 * WIDTH : 4 * WIDTH] = 200
    save("wide.png", wide)
    assert (images.read_grey(Path("wide.png"), (HEIGHT, WIDTH), fit=True) == 200).all()


def test_a_photograph_that_lies_on_its_side(run: Command) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90° for the viewer
    save("turned.png", np.rot90(grey(HEIGHT, WIDTH)), exif=exif)
    assert (images.read_grey(Path("turned.png"), (HEIGHT, WIDTH)) == grey(HEIGHT, WIDTH)).all()


# ---------------------------------------------------------------------------------------------------------------------
# Contours


def test_a_contour_image_of_any_size(run: Command) -> None:
    assert run("grid.safetensors", "contour.png").out == (
        "labels.png, p_contour.png, p_out.png, p_in.png are in contour.marginals.\n"
    )
    model: GridMRF = build("GridMRF", scale=0.7)
    on = torch.tensor(grey(4, 9, seed=2) > 170)[None]
    with torch.no_grad():
        p = model(Query(on.double(), torch.ones_like(on))).probs[0].numpy()
    for label, name in enumerate(("contour", "out", "in")):
        shown = pixels(f"contour.marginals/p_{name}.png")
        assert shown.shape == (4, 9)
        assert np.abs(shown - 255 * p[..., label]).max() <= 0.5 + 1e-3
    colours = np.array([[200, 30, 30], [255, 248, 205], [190, 215, 245]])
    assert (pixels("contour.marginals/labels.png") == colours[p.argmax(-1)]).all()


def test_hidden_pixels_give_no_evidence(run: Command) -> None:
    hidden = np.zeros((4, 9), bool)
    hidden[1:3, 2:7] = True
    save("mask.png", 255 * ~hidden)
    save("inverted.png", np.where(hidden, 255, 255 * (grey(4, 9, seed=2) > 170)))
    assert run("grid.safetensors", "contour.png", "--mask", "mask.png", "--out", "one").code == 0
    assert run("grid.safetensors", "inverted.png", "--mask", "mask.png", "--out", "other").code == 0
    assert run("grid.safetensors", "contour.png", "--out", "all").code == 0
    assert (pixels("one/p_in.png") == pixels("other/p_in.png")).all()
    assert (pixels("one/p_in.png") != pixels("all/p_in.png")).any()
    said = run("grid.safetensors", "contour.png", "--mask", "face.png").sentence
    assert said.startswith("face.png is 5 pixels wide and 7 high, but 9 wide and 4 high is expected")


def test_dark_on_bright_is_noted(run: Command) -> None:
    save("dark.png", 255 * (grey(4, 9, seed=2) < 170))
    result = run("grid.safetensors", "dark.png")
    assert (result.code, result.err) == (0, "note: most pixels are on; a contour should be bright on dark.\n")


def test_one_pixel(run: Command) -> None:
    save("dot.png", np.zeros((1, 1)))
    assert run("grid.safetensors", "dot.png").code == 0
    assert pixels("dot.marginals/labels.png").shape == (1, 1, 3)


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and has no pixels at all."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))  # noqa: E731
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "bad.png is not an image (PNG, JPEG, GIF, BMP, TIFF, PPM)."),
        (b"row,variable\n1,2\n", "bad.png is not an image (PNG, JPEG, GIF, BMP, TIFF, PPM)."),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 5\n", "bad.png is not an image (PNG, JPEG, GIF, BMP, TIFF, PPM)."),
        (png_header(5, 7), "bad.png is a damaged image ("),
        (png_header(401, 400), "bad.png is 401 pixels wide and 400 high; 160000 pixels are the most that is taken here."),
        (png_header(10_000, 10_000), "bad.png is 10000 pixels wide and 10000 high; 160000 pixels are the most"),
        (png_header(60_000, 60_000), "bad.png has more than 160000 pixels, which is too many here."),
    ],
)
@pytest.mark.parametrize("model", ["face", "grid"])
def test_what_is_not_an_image_or_too_large(model: str, content: bytes, said: str, run: Command) -> None:
    Path("bad.png").write_bytes(content)
    assert run(f"{model}.safetensors", "bad.png", "--mask", "mask.png").sentence.startswith(said)
    assert not Path("bad.marginals").exists()


def test_half_an_image(run: Command) -> None:
    whole = Path("face.png").read_bytes()
    Path("half.png").write_bytes(whole[: len(whole) // 2])
    assert run("face.safetensors", "half.png", "--mask", "mask.png").sentence.startswith("half.png is a damaged image (")


@pytest.mark.parametrize("kind", [np.uint16, np.int32, np.float32])
def test_deep_pixels_are_not_cut_off_silently(kind: Any, run: Command) -> None:
    Image.fromarray(np.full((HEIGHT, WIDTH), 1000, kind)).save("deep.tif")
    assert run("face.safetensors", "deep.tif", "--mask", "mask.png").sentence.startswith(
        "deep.tif has more than 8 bits per pixel"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["face.safetensors", "face.png"], "a face needs --mask, an image that is white where the face is known"),
        (["plain.safetensors", "face.png", "--mask", "mask.png"], "the model does not say how its variables form an image;"),
        (["face.safetensors", "face.png", "--mask", "none.png"], "[Errno 2] No such file or directory"),
        (["face.safetensors", "none.png", "--mask", "mask.png"], "none.png does not exist; give a table or an image."),
        (["grid.safetensors", "contour.png", "--fit"], "--fit is for faces; a contour image may have any size."),
        (["grid.safetensors", "contour.png", "--out", "face.png"], "face.png is a file; give a folder for the images."),
        (["grid.safetensors", "contour.png", "--mask", "face.csv"], "face.csv is not an image"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(words: list[str], said: str, run: Command) -> None:
    Path("face.csv").write_text("1,2\n")
    assert run(*words).sentence.startswith(said)


def test_what_is_read_is_never_written_over(run: Command) -> None:
    Path("face.png").rename("mean.png")
    Path("mask.png").rename("deviation.png")
    before = Path("mean.png").read_bytes(), Path("deviation.png").read_bytes()
    said = run("face.safetensors", "mean.png", "--mask", "deviation.png", "--out", ".").sentence
    assert said == "mean.png is also read; give another place for the answer with --out."
    assert before == (Path("mean.png").read_bytes(), Path("deviation.png").read_bytes())


def test_pictures_are_rounded_and_clipped(tmp_path: Path) -> None:
    images.write_png(tmp_path / "new" / "grey.png", torch.tensor([[-3.0, 0.4, 0.6], [254.6, 300.0, 17.0]]))
    assert pixels(str(tmp_path / "new" / "grey.png")).tolist() == [[0, 0, 1], [255, 255, 17]]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["grey.png"]


def test_a_shipped_face_model_fills_in_better_than_nothing(run: Command) -> None:
    """A dreamed face, half of it hidden: what is filled in is nearer to it than the mean face."""
    if "grbm/frey" not in qtcore.available():
        pytest.skip("no model of this name is shipped")
    from qtcore.data import faces_offline
    from qtcore.data.frey import grey_levels

    model = qtcore.load("grbm/frey")
    truth = grey_levels(faces_offline()[0], model.statistics).reshape(28, 20).clamp(0, 255).floor().numpy()
    mean = grey_levels(torch.zeros(560), model.statistics).reshape(28, 20).numpy()
    known = torch.rand(28, 20, generator=rng(0)).numpy() < 0.5
    save("dream.png", truth)
    save("half.png", 255 * known)
    assert run("grbm/frey", "dream.png", "--mask", "half.png").code == 0
    result = pixels("dream.marginals/mean.png")
    assert np.abs(result - truth)[~known].mean() < 0.7 * np.abs(mean - truth)[~known].mean()
