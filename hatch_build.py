"""The README as package indexes show it: they have no files beside it, so links and pictures get the address of the project.

The address is `Source` in [project.urls] of pyproject.toml; without one the README stays as it is.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^\[\]]*\])\((?!https?:|mailto:|#)([^()\s]+)\)")
BRANCH = "main"


def absolute(text: str, source: str) -> str:
    """Markdown with the links to files of the project as addresses: of pages to look at, and of pictures themselves."""

    def address(found: re.Match[str]) -> str:
        picture, words, path = found.groups()
        return f"{picture}{words}({source.rstrip('/')}/{'raw' if picture else 'blob'}/{BRANCH}/{path})"

    return LINK.sub(address, text)


class Readme(MetadataHookInterface):
    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling, for wheel and sdist."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, source) if source else text}
