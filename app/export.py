"""In a clone, `python -m app.export` writes what the app shows as a page; an installation has `python -m qtcore_app.export`."""

from qtcore_app.export import main

from qtcore.support.cli import guarded

if __name__ == "__main__":
    guarded(main)
