"""The scripts and styles of the components."""

from pathlib import Path

FOLDER = Path(__file__).parent


def script(name: str, *parts: str) -> str:
    """The component's script after the common one and other parts: one module, no build step, nothing to fetch."""
    return "\n".join((FOLDER / f"{part}.js").read_text("utf-8") for part in ("common", *parts, name))


def style(*names: str) -> str:
    return "\n".join((FOLDER / f"{part}.css").read_text("utf-8") for part in ("common", *names))
