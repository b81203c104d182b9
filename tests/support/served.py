"""Connections on virtual time, with an application that the test scripts."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from plantstore.errors import InternalError, RequestError
from plantstore.server.budget import Budget
from plantstore.server.connection import Connection, Server
from plantstore.server.forwarded import TrustedProxies
from plantstore.server.interface import Request, Response
from support.virtual_time import FakeTransport, VirtualLoop

Respond = Callable[[Request], Awaitable[Response]]

EVERYTHING = 10**9
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def responding(body: bytes, token: str = "") -> Respond:
    """Return an operation that responds with a body, to clients with the token of this name."""

    async def respond(request: Request) -> Response:
        request.token = token
        return Response(200, body=body)

    return respond


class Scripted:
    """An application that responds with a function.

    Attributes:
        failures: the errors that the server asked it to respond with.

    """

    def __init__(self, respond: Respond) -> None:
        self._respond = respond
        self.failures: list[BaseException] = []

    async def __call__(self, request: Request) -> Response:
        return await self._respond(request)

    def fail(self, error: BaseException, _request: Request) -> Response:
        self.failures.append(error)
        if isinstance(error, RequestError):
            return Response(503, {}, error.message.encode())
        return Response(500, {}, InternalError().message.encode())


class Served(contextlib.AbstractContextManager["Served"]):
    """A server on virtual time: connections to one application, which share a budget."""

    def __init__(self, respond: Respond, **bounds: int) -> None:
        self.loop = VirtualLoop()
        self.budget = Budget(**bounds)
        self.application = Scripted(respond)
        self.told: list[Any] = []
        self.server = Server(
            application=self.application,
            request_seconds=10,
            idle_seconds=75,
            stop_seconds=10,
            connections_max=1000,
            proxies=TrustedProxies(),
            budget=self.budget,
            observe=self.told.append,
        )
        self._clients: list[FakeTransport] = []
        self._errors: list[Any] = []
        self.loop.set_exception_handler(lambda _loop, context: self._errors.append(context))

    def connect(self) -> FakeTransport:
        client = FakeTransport(self.loop, Connection(self.server, self.loop))
        self._clients.append(client)
        return client

    def send(self, *pieces: bytes, seconds: float = 0.001) -> FakeTransport:
        """Connect a client that reads everything, let it send data, and let the server work."""
        client = self.connect()
        client.read(EVERYTHING)
        for piece in pieces:
            client.arrive(piece)
        self.run(seconds)
        return client

    def run(self, seconds: float = 0.001) -> None:
        """Let the server work for so long."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.leave()
        self.run(200)
        self.loop.close()
        assert not self._errors
