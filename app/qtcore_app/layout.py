"""What stands side by side on a screen stands one below the other on a phone."""

from typing import Any

import panel as pn

NARROW = 1020
"""Windows up to this width, in pixels: choices, painter and maps no longer fit side by side. As in components/common.js."""
STACKED = f"""
@media (max-width: {NARROW}px) {{
  :host {{ flex-direction: column !important; width: auto !important; gap: 12px; }}
  * {{ flex: none !important; margin-left: 0 !important; margin-right: 0 !important; }}
  .choices {{ align-self: stretch; }}
  .last {{ order: 1; }}
}}"""
WIDE = f"@media (max-width: {NARROW}px) {{ :host, * {{ width: auto !important; }} * {{ align-self: stretch !important; }} }}"


def beside(*children: Any, **options: Any) -> pn.Row:
    """A row; in a narrow window a column, with `choices` that are `last` after all else."""
    return pn.Row(*children, stylesheets=[STACKED], **options)


def choices(*children: Any, last: bool = False, **options: Any) -> pn.Column:
    """A column of a fixed width; in a narrow window it takes all there is."""
    return pn.Column(*children, stylesheets=[WIDE], css_classes=["choices", "last"] if last else ["choices"], **options)
