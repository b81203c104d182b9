"""The end of an export whose request is cancelled, as uvicorn cancels it at the end of a stop."""

import asyncio
from typing import Any

from plantstore.observe import ReadFailed, RequestFailed
from plantstore.plants import NewPlant
from plantstore.server.interface import ABORT
from support.world import World, run


def test_an_export_that_is_running_at_the_end_of_a_stop_is_aborted() -> None:
    sent: list[Any] = []

    async def test(world: World) -> None:
        world.put_in(NewPlant(1, "a"))
        has_begun = asyncio.Event()

        async def send(event: Any) -> None:
            sent.append(event)
            if event["type"] == "http.response.body":
                has_begun.set()
                await asyncio.Event().wait()  # the client reads nothing

        serving = asyncio.ensure_future(world.app(export_of(world), hold_back, send))
        await has_begun.wait()
        serving.cancel()
        await asyncio.wait([serving])
        assert not serving.cancelled()
        assert serving.exception() is None

    world = run(test)

    assert [event["type"] for event in sent[:-1]] == ["http.response.start", "http.response.body"]
    assert sent[-1] is ABORT
    assert world.told(ReadFailed) == []
    assert world.told(RequestFailed) == []


def export_of(world: World) -> dict[str, Any]:
    """Return the scope of a request for all plants."""
    bearer = f"Bearer {world.token}".encode()
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/plants",
        "raw_path": b"/plants",
        "query_string": b"",
        "headers": [(b"accept", b"application/x-ndjson"), (b"authorization", bearer)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }


async def hold_back() -> Any:
    await asyncio.Event().wait()
