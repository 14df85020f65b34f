"""Users who come and go leave nothing behind: the server holds after many sessions what it held after the first ones."""

import asyncio
import json
from collections import Counter

import pytest

from tests.app.server import QUERIES, Server, connect, get, leave, served, until

OF_ONE_USER = ("qtcore_app.shell.", "qtcore_app.tour.", "qtcore_app.components.", "bokeh.models.layouts.")


async def visits(url: str) -> None:
    for query in QUERIES:
        await leave(await connect(url, query))


async def during(server: Server) -> Counter[str]:
    """What is alive while somebody is there."""
    socket = await connect(server.url)
    result = await asyncio.to_thread(census, server)
    await leave(socket)
    return result


def census(server: Server) -> Counter[str]:
    return Counter(json.loads(get(f"{server.url}census")))


def of_one_user(result: Counter[str]) -> Counter[str]:
    """What is made for each session anew, pages included."""
    return Counter({kind: n for kind, n in result.items() if kind.startswith(OF_ONE_USER) or kind.endswith("Page")})


@pytest.mark.slow
def test_sessions_leave_nothing_behind() -> None:
    often = {"--unused-session-lifetime": "300", "--check-unused-sessions": "100"}
    with served({**often, "--plugins": "tests.app.census"}) as server:
        assert of_one_user(asyncio.run(during(server))), "the census counts what a session makes"
        counts = []
        for _ in range(2):  # what all share is made by the first user of each page
            asyncio.run(visits(server.url))
            until(lambda: get(f"{server.url}sessions") == "0", "the sessions to expire")
            counts.append(census(server))
    assert not of_one_user(counts[0])
    assert counts[1] - counts[0] == Counter()
