"""For `panel serve --plugins tests.app.census`: the server counts what it holds. Only tests ask for it."""

import gc
import json
import resource
from collections import Counter
from pathlib import Path

import torch
from bokeh.document import Document
from bokeh.model import Model
from qtcore_app import sessions
from qtcore_app.pages import results
from tornado.web import RequestHandler

OURS = ("qtcore_app.", "panel.", "panel_material_ui.")


class Sessions(RequestHandler):
    """How many sessions are open."""

    def get(self) -> None:
        self.finish(str(sessions.count()))


class Memory(RequestHandler):
    """How many bytes are resident, after what nobody needs was given back."""

    def get(self) -> None:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        self.finish(str(pages * resource.getpagesize()))


class Census(RequestHandler):
    """What is alive, by its class: documents and models of Bokeh, tensors, and all that this app and Panel define."""

    def get(self) -> None:
        results.drawn()  # in another thread, perhaps, which is waited for
        for _ in range(3):  # what is freed may let go of more
            gc.collect()
        kinds = Counter(type(each) for each in gc.get_objects())
        kept = {
            f"{kind.__module__}.{kind.__qualname__}": number
            for kind, number in kinds.items()
            if issubclass(kind, Document | Model | torch.Tensor) or str(kind.__module__).startswith(OURS)
        }
        self.finish(json.dumps(kept))


ROUTES = [("/sessions", Sessions), ("/memory", Memory), ("/census", Census)]
