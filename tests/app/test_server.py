"""What a client that is not ours can make the server say."""

import asyncio

import pytest

from tests.app.server import provoke, served


@pytest.mark.slow
def test_no_traceback_and_no_path_reaches_a_client() -> None:
    with served() as server:
        answer = "\n".join(asyncio.run(provoke(server.url)))
        said = server.said()
    assert "could not handle this message" in answer
    for word in ("Traceback", "File ", ".py", "site-packages"):
        assert word not in answer
    assert "a message could not be handled" in said
    assert "SECRET" not in said
