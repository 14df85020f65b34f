"""In a clone, `python -m app.bench` measures the app's latency; an installation has `python -m qtcore_app.bench`."""

from qtcore.support.cli import guarded
from qtcore.support.extras import required


def main() -> "int | None":
    code: int | None = required("qtcore_app.bench", "app").main()
    return code


if __name__ == "__main__":
    guarded(main)
