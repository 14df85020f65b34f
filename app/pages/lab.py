"""LBP lab: small graphs whose messages you send by hand."""

import panel_material_ui as pmui
from panel.viewable import Viewable

from app.shell import Shell


def page(shell: Shell) -> Viewable:
    """What the tab shows."""
    return pmui.Typography("Coming: small graphs whose messages you send by hand.", margin=16)
