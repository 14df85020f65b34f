"""The widget in JupyterLab, as a reader opens it: run all, paint, see the answer change. (What the notebooks compute is run
by nbmake.)"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import numpy as np
import pytest

from tests.app.server import ROOT, running

from .conftest import LOCAL_HOSTS
from .helpers import picture, wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser

OURS = ROOT / "notebooks" / "06_the_models_of_the_paper.ipynb"
NAME = "widget.ipynb"
MILLISECONDS_TO_RUN_ALL = 300_000


def notebook() -> dict[str, Any]:
    """What a notebook needs for the widget, with the metadata of ours."""
    sources = (
        "import panel as pn\nimport torch\n\nimport app\nimport qtcore\n\npn.extension(inline=True)",
        'qtcore.widget(qtcore.load("grbm/frey"), torch.zeros(560))',
    )
    empty = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    whole: dict[str, Any] = json.loads(OURS.read_text(encoding="utf-8"))
    return whole | {"cells": [empty | {"id": f"cell{i}", "source": source} for i, source in enumerate(sources)]}


@pytest.fixture
def lab_url(tmp_path: Path) -> Iterator[str]:
    """JupyterLab with nothing but that notebook."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / NAME).write_text(json.dumps(notebook()), encoding="utf-8")
    settings = tmp_path / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')  # draw cells that are out of sight, too
    quiet = ("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate")
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0", *quiet]
    command += ["--IdentityProvider.token=", "--LabApp.extension_manager=readonly", f"--ServerApp.root_dir={tmp_path / 'work'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("QTCORE_")}
    environment |= {f"JUPYTER_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    environment |= {"OMP_NUM_THREADS": "1", "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"), "IPYTHONDIR": str(tmp_path)}
    with running(command, tmp_path, environment, tmp_path / "log", r"(http://localhost:\d+/)lab") as server:
        yield f"{server.url}lab/tree/{NAME}"


def test_run_all_and_paint(browser: "Browser", lab_url: str) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(urlparse(request.url).hostname or LOCAL_HOSTS[0]))
    page.goto(lab_url)
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    page.get_by_text("| Idle").wait_for(timeout=MILLISECONDS_TO_RUN_ALL)  # the kernel is there
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    player = page.locator(".qt.player .picture canvas[data-map=mean]").first
    player.wait_for(timeout=MILLISECONDS_TO_RUN_ALL)
    finished = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every(e => /[0-9]/.test(e.textContent))"
    page.wait_for_function(finished, timeout=MILLISECONDS_TO_RUN_ALL)  # no cell waits or runs: the kernel has time for us
    player.scroll_into_view_if_needed()

    before = picture(page, "mean")
    canvas = page.locator(".qt.painter canvas").first
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.4 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"], steps=8)
    page.mouse.up()
    wait_until(page, lambda: not np.array_equal(picture(page, "mean"), before), "the picture to change after a stroke")
    assert asked <= set(LOCAL_HOSTS), asked
    assert page.locator(".jp-OutputArea-output[data-mime-type*=error]").count() == 0
    context.close()
