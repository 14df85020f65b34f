"""Names of the library in the text are links: `qtcore.query.Query` leads to its page in the reference."""

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

NAME = re.compile(r"(?:python -m )?(qtcore(?:\.\w+)+)(?:\(.*\))?")


def link_names(app: Sphinx, tree: nodes.document) -> None:
    """Each piece of code that is a name becomes a reference to it; one that leads nowhere stays code."""
    for literal in list(tree.findall(nodes.literal)):
        name = NAME.fullmatch(literal.astext())
        if name is None or isinstance(literal.parent, (addnodes.pending_xref, nodes.reference)):
            continue
        target = name[1]
        reference = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=False, refdoc=app.env.docname
        )
        literal.replace_self(reference)
        reference += literal


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
