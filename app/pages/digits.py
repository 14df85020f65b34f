"""Digits & tables: 8×8 digits and binary records with the RBM and the DBM."""

import panel_material_ui as pmui
from panel.viewable import Viewable

from app.shell import Shell


def page(shell: Shell) -> Viewable:
    """What the tab shows."""
    return pmui.Typography("Coming: 8×8 digits and binary records with the RBM and the DBM.", margin=16)
