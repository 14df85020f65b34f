"""Equations as MathML, made when the site is built: browsers show it without a script, a font or a network."""

import html
from typing import Any
from xml.etree import ElementTree

from docutils import nodes
from latex2mathml.converter import convert_to_element
from sphinx.application import Sphinx
from sphinx.util import logging

FUNCTIONS = {"log", "exp", "max", "min"}

logger = logging.getLogger(__name__)


def _mathml(node: nodes.Node, display: str) -> str:
    latex = node.astext()
    try:
        tree = convert_to_element(latex, display=display)
    except Exception as error:  # the library has no common base for what it raises
        logger.warning("cannot be shown as MathML (%s): %s", error, latex, location=node)
        return latex
    for element in tree.iter():  # the library writes signs as entities, which would be escaped once more
        element.text = element.text and html.unescape(element.text)
    if "\\" in "".join(tree.itertext()):
        logger.warning("has a command that is not known: %s", latex, location=node)
    space_functions(tree)
    return ElementTree.tostring(tree, encoding="unicode", short_empty_elements=False)


def space_functions(tree: ElementTree.Element) -> None:
    """A thin space between a function's name and an argument without brackets, which the library leaves out."""
    for row in tree.iter():
        if row.tag not in ("math", "mrow", "mstyle", "mtd"):
            continue
        for place in reversed(range(len(row) - 1)):
            name = row[place] if row[place].tag == "mi" else next(iter(row[place]), row[place])
            if name.tag == "mi" and name.text in FUNCTIONS and row[place + 1].tag != "mo":
                row.insert(place + 1, ElementTree.Element("mspace", width="0.17em"))


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_mathml(node, "inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{_mathml(node, "block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.config.html_math_renderer = "mathml"  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
