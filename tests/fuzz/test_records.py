"""Records of results with values of another type: the page and the tables leave out what they cannot show."""

import copy
import json
import logging
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from qtcore_app.pages import results

from qtcore.models.files import checkpoint_folder
from qtcore.paper.tables import TABLES, markdown

from .support import COUNTS
from .test_files import values

SHIPPED = [
    json.loads(path.read_text(encoding="utf-8")) for path in sorted((checkpoint_folder().parent / "results").glob("*.json"))
]
_folder = tempfile.TemporaryDirectory()


def edit(draw: st.DrawFn, record: Any) -> None:
    """Replace something in it, at any depth."""
    place = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or not place[key] or draw(st.integers(0, 2)) == 0:
            place[key] = draw(values)
            return
        place = place[key]


@given(st.data())
def test_records(data: st.DataObject) -> None:
    COUNTS["records"] += 1
    logging.disable(logging.WARNING)  # one for each
    record = copy.deepcopy(data.draw(st.sampled_from(SHIPPED)))
    for _ in range(data.draw(st.integers(1, 2))):
        edit(data.draw, record)
    folder = Path(_folder.name)
    (folder / "record.json").write_text(json.dumps(record), encoding="utf-8")
    read = results.results(folder)
    html = results.html(read)
    assert "<script" not in html
    for table in TABLES:
        markdown(table, read)
    logging.disable(logging.NOTSET)
