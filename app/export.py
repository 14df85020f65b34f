"""In a clone, `python -m app.export` writes what the app shows as a page; an installation has `python -m qtcore_app.export`."""

from qtcore.support.cli import guarded
from qtcore.support.extras import required


def main() -> "int | None":
    code: int | None = required("qtcore_app.export", "app").main()
    return code


if __name__ == "__main__":
    guarded(main)
