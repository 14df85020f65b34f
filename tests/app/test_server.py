"""What a client that is not ours can make the server say."""

import asyncio
import json

from tests.app.server import connect, leave, served


async def provoke(url: str) -> list[str]:
    """Send a change of a model that does not exist; everything that comes back."""
    socket = await connect(url)
    event = {"kind": "ModelChanged", "model": {"id": "nobody"}, "attr": "packet", "new": "SECRET" * 3}
    for part in ({"msgid": "1", "msgtype": "PATCH-DOC"}, {}, {"events": [event]}):
        await socket.write_message(json.dumps(part))
    answer = [str(await asyncio.wait_for(socket.read_message(), 20)) for _ in range(3)]
    await leave(socket)
    return answer


def test_no_traceback_and_no_path_reaches_a_client() -> None:
    with served() as (url, _, log):
        answer = "\n".join(asyncio.run(provoke(url)))
        log.seek(0)
        said = log.read().decode()
    assert "could not handle this message" in answer
    for word in ("Traceback", "File ", ".py", "site-packages"):
        assert word not in answer
    assert "a message could not be handled" in said
    assert "SECRET" not in said
