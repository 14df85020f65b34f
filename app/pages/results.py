"""Results: the paper's tables beside ours."""

import panel_material_ui as pmui
from panel.viewable import Viewable

from app.shell import Shell


def page(shell: Shell) -> Viewable:
    """What the tab shows."""
    return pmui.Typography("Coming: the paper's tables beside ours.", margin=16)
