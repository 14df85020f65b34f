"""A directive whose content is Markdown made when the site is built."""

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


class Made(SphinxDirective):
    """Parses what `text` returns as if it stood in the page."""

    optional_arguments = 2

    def text(self) -> str:
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        around = nodes.container()
        around.document = self.state.document
        lines = StringList(self.text().splitlines(), self.env.docname)
        self.state.nested_parse(lines, self.content_offset, around, match_titles=True)
        return around.children
