"""How Sphinx builds the documentation: `make docs`. Pages are Markdown (MyST), notebooks, and docstrings.

The top folder of the project is the source, so that a link between pages, notebooks, results and README is the same relative
path here and wherever else these files are read. What Sphinx cannot do by itself is in docs/site.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "site")]

import qtcore  # noqa: E402  (of this folder)

project = "qtcore"
author = "The qtcore developers"
copyright = "The qtcore developers, MIT licence"
version = release = qtcore.__version__

root_doc = "docs/index"
include_patterns = ["docs/**", "notebooks/*.ipynb", "assets/results/*.md", "CHANGELOG.md", "CONTRIBUTING.md"]
exclude_patterns = ["docs/_build", "docs/pictures", "docs/site", "assets/results/summary.md"]
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "myst_nb", "mathml", "cards", "commands", "names", "equations"]

html_theme = "furo"
html_title = "qtcore"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_extra_path = ["site/top"]  # the first page is docs/index.html, and index.html leads there
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "colon_fence", "attrs_block", "attrs_inline"]
myst_heading_anchors = 4  # as wherever Markdown is shown
myst_footnote_transition = False
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
suppress_warnings = ["mystnb.unknown_mime_type"]  # what widgets tell notebooks; there is HTML beside it

default_role = "py:obj"  # `name` in a docstring is a link where there is such a name, else code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True, "show-inheritance": True}
napoleon_google_docstring = True
napoleon_numpy_docstring = False
python_use_unqualified_type_names = True
