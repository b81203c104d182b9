"""Requests leave no reference cycles, so the garbage collector may run rarely."""

import asyncio
import gc
import json
from typing import Any

from plantstore.cli.wiring import running
from support.world import World

REQUESTS = [
    ("POST", "/plants", b'{"id": 1, "name": "a"}'),
    ("POST", "/plants", b'{"id": 1, "name": "b"}'),
    ("POST", "/plants", b"{"),
    ("GET", "/plants", b""),
    ("GET", "/plants/1", b""),
    ("GET", "/plants/x", b""),
    ("GET", "/nowhere", b""),
    ("PATCH", "/plants", b""),
    ("GET", "/readyz", b""),
    ("DELETE", "/plants/2", b""),
]


def test_no_request_leaves_a_reference_cycle() -> None:
    world = World()
    statuses: list[int] = []

    async def send(token: str, method: str, path: str, body: bytes) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def answer(event: Any) -> None:
            if "status" in event:
                statuses.append(event["status"])
            else:
                json.loads(event["body"] or b"0")

        headers = {b"authorization": b"Bearer " + token.encode(), b"host": b"x"}
        headers |= {b"content-type": b"application/json"} if body else {}
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {"method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": list(headers.items()), "client": None, "server": None}
        await world.app(scope | {"scheme": "http", "root_path": ""}, receive, answer)

    async def main() -> None:
        async with running(world.parts):
            for _ in range(2):  # the first time, objects are created that stay
                gc.collect()
                gc.disable()
                for token in (world.token, "bad"):
                    for request in REQUESTS:
                        await send(token, *request)
                world.events.clear()
                world.answers.clear()
                left = gc.collect()
        assert left == 0

    try:
        asyncio.run(main())
    finally:
        gc.enable()
    assert set(statuses) == {200, 400, 401, 404, 405}
