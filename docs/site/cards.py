"""The directive `shipped`: a part of a model card, from the files of models and of results. `shipped:: depths rbm`."""

from pathlib import Path

from made import Made
from shipped import PARTS, PLOTS, of_family, records
from sphinx.application import Sphinx

from qtcore.paper.plots import plot

GENERATED = "docs/generated"


class Shipped(Made):
    required_arguments = 2
    optional_arguments = 0

    def text(self) -> str:
        part, family = self.arguments
        found = records()
        text = PARTS[part](family, found)
        if part == "trainings":
            return f"{{.trainings}}\n{text}"
        if part not in PLOTS:
            return text
        name = f"{PLOTS[part]}-{family}.png"
        path = Path(self.env.srcdir, GENERATED, name)
        path.parent.mkdir(exist_ok=True)
        plot(PLOTS[part], of_family(family, found, PLOTS[part]), path)
        return f"{text}\n\n![The same as a plot](/{GENERATED}/{name})\n"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("shipped", Shipped)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
