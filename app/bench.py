"""In a clone, `python -m app.bench` measures the app's latency; an installation has `python -m qtcore_app.bench`."""

from qtcore_app.bench import main

from qtcore.support.cli import guarded

if __name__ == "__main__":
    guarded(main)
