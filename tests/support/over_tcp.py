"""Serves the application of a `World` on another server, and sends requests to it over TCP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from harness import free_port
from other_servers import SERVERS

if TYPE_CHECKING:
    from support.world import World


class OverTcp(httpx.AsyncBaseTransport):
    """Sends requests to a server of an application.

    Args:
        world: has the application.
        server: the name of the server.

    """

    def __init__(self, world: "World", server: str) -> None:
        self._world = world
        self._serve = SERVERS[server]
        self._sockets = httpx.AsyncHTTPTransport(limits=httpx.Limits())
        self._port = free_port()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.url = request.url.copy_with(host="127.0.0.1", port=self._port)
        request.extensions["timeout"] = {}  # the test has one
        response = await self._sockets.handle_async_request(request)
        response.headers.pop("date", None)  # it changes between two equal responses
        return response

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve while the block runs."""
        world = self._world
        async with self._serve(world.server, world.parts, self._port), self._sockets:
            yield
