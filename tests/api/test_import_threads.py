"""How threads share the interpreter while an import runs."""

import asyncio
import sys
from typing import Any

from plantstore.api.imports import SWITCH_SECONDS
from support.world import World, run


def test_threads_switch_faster_until_the_last_import_ends() -> None:
    usual = sys.getswitchinterval()
    seen: list[float] = []

    async def test(world: World) -> None:
        first, second = Import(world, b"not,columns"), Import(world, b"id,name")
        for ended in (first, second):
            await ended.is_read.wait()
        for ended in (first, second):
            seen.append(sys.getswitchinterval())
            ended.may_end.set()
            await ended.task
        assert [ended.status for ended in (first, second)] == [400, 200]

    run(test)

    assert seen == [SWITCH_SECONDS] * 2
    assert sys.getswitchinterval() == usual


class Import:
    """An import whose body arrives when the test allows it."""

    def __init__(self, world: World, body: bytes) -> None:
        self.is_read = asyncio.Event()
        self.may_end = asyncio.Event()
        self.status = 0
        self._body = body
        headers = {"authorization": f"Bearer {world.token}"}
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {
            "method": "POST",
            "path": "/plants.csv",
            "raw_path": b"/plants.csv",
            "query_string": b"",
        }
        scope |= {"client": None, "server": None, "scheme": "http", "root_path": ""}
        scope["headers"] = [(name.encode(), value.encode()) for name, value in headers.items()]
        self.task = asyncio.ensure_future(world.app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        self.is_read.set()
        await self.may_end.wait()
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)
