"""The command `qtcore`, with those of the modules as its subcommands: `qtcore train …` is `python -m qtcore.train …`."""

import sys
from importlib import import_module

from qtcore import __version__
from qtcore.errors import UnknownNameError, nearest
from qtcore.support.cli import guarded

COMMANDS = {
    "app": "serve the interactive app, and open it in a browser",
    "train": "query-train a model",
    "evaluate": "score a saved model on its dataset",
    "infer": "fill in what is missing in a table or an image, or compute the marginals of a graph",
    "sample": "samples of a model: all unknown variables drawn jointly",
    "fetch": "fetch the datasets, list them, check them",
    "reproduce": "every number of the paper's tables",
    "bench": "measure how fast the models are",
    "doctor": "what is installed here, what runs the layers, what data are found",
}

USAGE = "usage: qtcore COMMAND …\n\n{}\n\n`qtcore COMMAND --help` says more, with examples: `qtcore infer rbm/adult rows.csv`."


def main() -> int:
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print(USAGE.format("\n".join(f"  {name:10} {what}" for name, what in COMMANDS.items())))
        return 0
    if words[0] == "--version":
        print(__version__)
        return 0
    if words[0] not in COMMANDS:
        raise UnknownNameError(f"there is no command named {words[0]!r}; {nearest(words[0], list(COMMANDS))}")
    sys.argv = [f"qtcore {words[0]}", *words[1:]]
    code: int | None = import_module(f"qtcore.{words[0]}").main()
    return code or 0


def console() -> None:
    """What an installation puts on the path."""
    guarded(main)


if __name__ == "__main__":
    console()
