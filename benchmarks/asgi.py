"""The operations of the service as an application of ASGI 3, for servers such as uvicorn.

Timeouts and the limits of connections and of memory are those of the server.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import lru_cache
from time import perf_counter
from typing import Any, Protocol, Self, TypeAlias
from urllib.parse import unquote

from plantstore.api.operations import Parts
from plantstore.cli.wiring import running
from plantstore.errors import ClientGoneError
from plantstore.observe import Responded
from plantstore.server.connection import Server
from plantstore.server.exchange import CLIENT_GONE
from plantstore.server.http11 import render_head
from plantstore.server.interface import Fields, Request, Response

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]


class Client(Protocol):
    """How a response is sent to a server. The body of HEAD is empty."""

    async def send_whole(self, response: Response, body: bytes) -> None:
        """Send a response with a complete body."""

    async def begin(self, response: Response) -> None:
        """Send the head of a response whose body has pieces."""

    async def send_piece(self, piece: bytes) -> None:
        """Send a piece of the body."""

    async def end(self) -> None:
        """Send the end of the body."""


class Exchange:
    """A request and its response, as a connection of this service has them.

    Args:
        config: has the application, the trusted proxies and the observer.
        request: the request.
        client: gets the response.

    """

    def __init__(self, config: Server, request: Request, client: Client) -> None:
        self._config = config
        self._request = request
        self._client = client
        self._status = CLIENT_GONE

    async def run(self) -> None:
        """Respond to the request.

        Raises:
            Exception: the response has begun and cannot be completed; the server cuts it off.

        """
        request, application = self._request, self._config.application
        if self._config.proxies:
            self._config.proxies.correct(request)
        began = perf_counter()
        try:
            await self._respond(await application(request))
        except (Exception, asyncio.CancelledError) as error:
            if self._status != CLIENT_GONE:
                raise
            if not isinstance(error, ClientGoneError):
                await self._respond(application.fail(error, request))
        finally:
            self._config.observe(Responded(request, self._status, perf_counter() - began))

    async def _respond(self, response: Response) -> None:
        body, has_body = response.body, self._request.method != "HEAD"
        if isinstance(body, bytes):
            await self._client.send_whole(response, body if has_body else b"")
            self._status = response.status
            return
        async with contextlib.aclosing(body) as pieces:
            if has_body:
                async for piece in pieces:
                    await self._begin(response)
                    await self._client.send_piece(piece)
                    if self._request.is_client_gone():
                        break
        await self._begin(response)
        await self._client.end()

    async def _begin(self, response: Response) -> None:
        """Send the head, which waits for the first piece: that may fail."""
        if self._status == CLIENT_GONE:
            await self._client.begin(response)
            self._status = response.status


@lru_cache(256)
def head_fields(
    status: int, fields: tuple[tuple[str, str], ...], body_bytes: int | None
) -> list[tuple[str, str]]:
    """Return the fields of a response, with those that each response of the service has.

    Raises:
        RuntimeError: a field has a line end in it.

    """
    _, *lines, _, _ = render_head(status, fields, body_bytes).decode("latin-1").split("\r\n")
    return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


def fields_of(response: Response) -> list[tuple[str, str]]:
    """Return the fields of a response, from a cache."""
    length = len(response.body) if isinstance(response.body, bytes) else None
    return head_fields(response.status, tuple(response.fields.items()), length)


def by_name(lines: Iterable[tuple[str, str]]) -> Fields:
    """Return the fields of a request by their names."""
    fields: dict[str, str] = {}
    for name, value in lines:
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    return fields


class Asgi:
    """An application of ASGI 3.

    Args:
        config: has the application, the trusted proxies and the observer.
        parts: of the application. They run from the startup of the server to its shutdown.

    """

    def __init__(self, config: Server, parts: Parts) -> None:
        self._config = config
        self._parts = parts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Respond to a request, or run the parts."""
        if scope["type"] == "lifespan":
            await receive()
            async with running(self._parts):
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        client = _Client(receive, send)
        path = scope["raw_path"].decode("latin-1").partition("?")[0]
        request = Request(
            scope["method"],
            unquote(path),
            scope["query_string"].decode("latin-1"),
            by_name((k.decode("latin-1"), v.decode("latin-1")) for k, v in scope["headers"]),
            client,
            scope["client"] and (scope["client"][0], int(scope["client"][1])),
            scope["scheme"],
            scope["http_version"],
            path,
            client.is_gone,
        )
        if "expect" not in request.fields:  # with it, a call for the body permits to send it
            await client.receive()
            if client.has_sent_all:
                request.body = client.held
        try:
            await Exchange(self._config, request, client).run()
        finally:
            client.leave()


class _Client:
    """A client: its body as it arrives, the end of its connection, and its response."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._end: asyncio.Future[Message] | None = None  # of the connection
        self._is_gone = False
        self.held = b""
        self.has_sent_all = False

    async def receive(self) -> None:
        """Receive a piece of the body, or the end of the connection."""
        message = await self._receive()
        self._is_gone = message["type"] == "http.disconnect"
        self.held = message.get("body", b"")
        self.has_sent_all = not (self._is_gone or message.get("more_body", False))

    def as_stream(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self.held:
            if self._is_gone:
                raise ClientGoneError
            if self.has_sent_all:
                raise StopAsyncIteration
            await self.receive()
        piece, self.held = self.held, b""
        return piece

    def is_gone(self) -> bool:
        """Return whether the client has disconnected.

        The first call behind the body begins to wait for that. In the body, a piece may follow.
        """
        if self.has_sent_all and self._end is None:
            self._end = asyncio.ensure_future(self._receive())
        return self._is_gone or (self._end is not None and self._end.done())

    def leave(self) -> None:
        """Wait no longer for the end of the connection."""
        if self._end is not None:
            self._end.cancel()

    async def send_whole(self, response: Response, body: bytes) -> None:
        await self.begin(response)
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, response: Response) -> None:
        headers = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in fields_of(response)]
        start = {"type": "http.response.start", "status": response.status, "headers": headers}
        await self._send(start)

    async def send_piece(self, piece: bytes) -> None:
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})
