"""Users who come and go leave nothing behind: memory after 200 sessions is what it was after 20."""

import asyncio
import re
import sys
import time
from pathlib import Path

import pytest

from tests.app.server import connect, leave, served

WARM_UP, SESSIONS = 20, 200
GROWTH = 1.10
QUERIES = ("?page=faces", "?page=contours", "?page=digits", "?page=digits&model=rbm/adult", "?page=lab", "?page=results")


def resident(pid: int) -> int:
    """Bytes in memory."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


async def visit(url: str, number: int) -> None:
    await leave(await connect(url, QUERIES[number % len(QUERIES)]))


async def visits(url: str, count: int) -> None:
    for number in range(count):
        await visit(url, number)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_sessions_leave_no_memory_behind() -> None:
    with served({"--unused-session-lifetime": "300", "--check-unused-sessions": "100"}) as (url, pid, _):
        sizes = []
        for count in (WARM_UP, SESSIONS):
            asyncio.run(visits(url, count))
            time.sleep(2)  # until the last ones have expired
            sizes.append(resident(pid))
    megabytes = [round(size / 2**20) for size in sizes]
    print(megabytes, "MB after", WARM_UP, "and after", SESSIONS, "more")
    assert sizes[1] <= GROWTH * sizes[0], f"{megabytes[0]} MB after {WARM_UP} sessions, {megabytes[1]} after {SESSIONS} more"
