"""What requests do to the interpreter: reference cycles, and the switching of threads."""

import asyncio
import gc
import sys
from collections.abc import AsyncIterator
from typing import Any

from plantstore.api.file_imports import SWITCH_SECONDS
from plantstore.server.interface import Request
from support.document import OPERATIONS
from support.world import World

CSV = {"Content-Type": "text/csv"}
OTHERS: list[dict[str, Any]] = [
    {"method": "POST", "path": "/plants", "content": b'{"id": 1, "name": "b"}'},
    {"method": "POST", "path": "/plants", "content": b"{"},
    {"method": "GET", "path": "/plants/x"},
    {"method": "GET", "path": "/nowhere"},
    {"method": "PATCH", "path": "/plants"},
    # An import that is interrupted must not keep its rows.
    {"method": "POST", "path": "/plants.csv", "content": b"no header", "headers": CSV},
]


async def send(world: World, request: dict[str, Any], token: str) -> int:
    """Send a request without a client, which could leave cycles itself; return the status."""
    media_type = request.get("headers", {}).get("Content-Type", "application/json")
    fields = {"authorization": f"Bearer {token}", "content-type": media_type}
    body = request.get("content", b"")
    sent = Request(request["method"], request["path"], fields=fields, body=body)
    status, _, _ = await world.respond(sent)
    return status


def test_no_request_leaves_a_reference_cycle(world: World) -> None:
    """So the garbage collector may run rarely."""
    # A cycle for each export does not matter: there are few, and each takes long.
    exports = {("GET", "/plants.csv"), ("GET", "/plants.ndjson")}
    requests = [each.request() for each in OPERATIONS if each[:2] not in exports] + OTHERS

    async def send_all() -> tuple[set[int], int]:
        statuses, left = set(), 0
        for _ in range(2):  # the first time, objects are created that stay
            gc.collect()
            gc.disable()
            for token in (world.token, "bad"):
                statuses |= {await send(world, request, token) for request in requests}
            world.events.clear()
            world.answers.clear()
            left = gc.collect()
        return statuses, left

    try:
        statuses, left = world.run(send_all())
    finally:
        gc.enable()

    assert left == 0
    assert {200, 400, 401, 404, 405} <= statuses


def test_threads_switch_faster_until_the_last_import_ends(world: World) -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    async def run_two() -> list[int]:
        are_read, may_end = ([asyncio.Event() for _ in range(2)] for _ in range(2))

        async def body(number: int, content: bytes) -> AsyncIterator[bytes]:
            are_read[number].set()
            await may_end[number].wait()
            yield content

        bodies = (body(number, content) for number, content in enumerate((b"no,id", b"id,name")))
        imports = [
            asyncio.ensure_future(world.sending("POST", "/plants.csv", each, None, CSV))
            for each in bodies
        ]
        for each in are_read:
            await each.wait()
        for each in may_end:
            seen.append(sys.getswitchinterval())
            each.set()
            await imports[len(seen) - 1]
        return [(await each).status_code for each in imports]

    assert world.run(run_two()) == [400, 200]
    assert seen == [SWITCH_SECONDS] * 2
    assert sys.getswitchinterval() == usual
