"""The scripts and styles of the components."""

from pathlib import Path

FOLDER = Path(__file__).parent


def script(name: str, *parts: str) -> str:
    """The component's own script after what all share and other parts: one module, no build, nothing to fetch."""
    return "\n".join((FOLDER / f"{each}.js").read_text("utf-8") for each in ("common", *parts, name))


def style(*names: str) -> str:
    return "\n".join((FOLDER / f"{each}.css").read_text("utf-8") for each in ("common", *names))
