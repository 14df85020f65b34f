"""How much is drawn, what is counted, and where failing inputs go."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from .support import COUNTS

FAILURES = Path(os.environ.get("QTCORE_FUZZ_FAILURES", "fuzz-failures"))

settings.register_profile(
    "fuzz",
    settings.get_profile("qtcore"),
    derandomize=False,
    max_examples=int(os.environ.get("QTCORE_FUZZ_EXAMPLES", "200")),
    database=DirectoryBasedExampleDatabase(FAILURES / "examples"),
    print_blob=True,
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """What failed, with the line that draws it again, in a file of its own."""
    report: Any = yield
    if report.failed and settings.default is settings.get_profile("fuzz"):
        FAILURES.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]+", "-", item.nodeid)[-120:]
        (FAILURES / f"{name}.txt").write_text(f"{item.nodeid}\n\n{report.longreprtext}\n", encoding="utf-8")
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if path := os.environ.get("QTCORE_FUZZ_COUNTS"):
        Path(path).write_text(json.dumps(COUNTS), encoding="utf-8")
