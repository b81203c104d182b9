"""Connections on virtual time: an event loop, a transport without a socket, and a server."""

import asyncio
import contextlib
import selectors
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from plantstore.errors import InternalError, RequestError
from plantstore.messages import Request, Response
from plantstore.server.budget import Budget
from plantstore.server.connection import Connection, Server
from plantstore.server.forwarded import TrustedProxies

# The value of SO_LINGER: whether a close waits for the client to read, and how long.
_LINGER = struct.Struct("ii")


def ignore() -> None:
    """Do nothing."""


class _Clock(selectors.DefaultSelector):
    """A selector that waits for nothing: the time of a wait passes at once."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing would ever happen"
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on which time passes only while nothing else can happen."""

    def __init__(self) -> None:
        self._clock = _Clock()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


class FakeTransport(asyncio.Transport):
    """The server's side of a connection, whose client reads only what `read` is called for.

    Attributes:
        sent: what the client has read.
        notify: is called when the client has read something, and when the connection has ended.
        is_read: whether the server reads its side.
        reads: how often it has read data.
        has_ended: whether the server has closed its side.
        is_lost: whether the connection has ended.
        is_aborted: whether the server has discarded what the client has not read.
        is_discarded: whether the kernel discards it, too.

    """

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self.protocol = protocol
        self._sockets: tuple[socket.socket, ...] = ()  # made if the server asks for its socket
        self._unread = b""
        self._high = 0
        self._is_paused = self._is_closing = self.is_lost = False
        self._arriving: list[bytes] = []
        self.reads = 0
        self._window = 0
        self.sent = b""
        self.notify = ignore
        self.has_ended = False
        self.is_read = True
        self.is_aborted = self.is_discarded = False
        protocol.connection_made(self)

    # The client.

    def arrive(self, data: bytes) -> None:
        """Send data. The server gets it when it reads."""
        self._arriving.append(data)
        self._deliver()

    def read(self, size: int) -> None:
        """Let the client read so many bytes, now and when they are written."""
        self._window += size
        self._take()

    def leave(self) -> None:
        """Close the connection."""
        self._is_closing = True
        self._lose()

    # The server.

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002 (asyncio's)
        self._high = high or 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return ("127.0.0.1", 2)
        if name != "socket" or self.is_lost:
            return default
        self._sockets = self._sockets or socket.socketpair()
        return self._sockets[0]

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return len(self._unread)

    def write(self, data: Any) -> None:
        assert not self._is_closing
        self._unread += data
        self._take()
        if len(self._unread) > self._high and not self._is_paused:
            self._is_paused = True
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True
        self._loop.call_soon(self._deliver)

    def write_eof(self) -> None:
        self.has_ended = True

    def close(self) -> None:
        self._is_closing = True
        if not self._unread:
            self._loop.call_soon(self._lose)

    def abort(self) -> None:
        self._is_closing = self.is_aborted = True
        for each in self._sockets[:1]:
            linger = each.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER.size)
            self.is_discarded = linger == _LINGER.pack(1, 0)
        self._unread = b""
        self._loop.call_soon(self._lose)

    def _deliver(self) -> None:
        while self._arriving and self.is_read and not self._is_closing:
            data = b"".join(self._arriving)
            self._arriving.clear()
            self.reads += 1
            self.protocol.data_received(data)

    def _take(self) -> None:
        if size := min(self._window, len(self._unread)):
            self.sent += self._unread[:size]
            self._unread = self._unread[size:]
            self._window -= size
            self.notify()
        if self._is_paused and not self.is_lost and len(self._unread) <= self._high // 4:
            self._is_paused = False
            self.protocol.resume_writing()
        if self._is_closing and not self._unread:
            self._loop.call_soon(self._lose)

    def _lose(self) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.protocol.connection_lost(None)
            del self.protocol  # it refers to this object
            self.notify()
            for each in self._sockets:
                each.close()


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
