"""A request and its response, as ASGI has them: `receive` and `send`."""

import asyncio
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol

from plantstore.errors import ClientGoneError, RequestError
from plantstore.server import states
from plantstore.server.http11 import Request
from plantstore.server.interface import EXCHANGE, RESPONSE_STATUS, Event, Scope
from plantstore.server.states import Progress

# Heads of responses that are cached. Most differ only in the length of the body.
_CACHED_HEADS: Final = 256

# Fields of each response. Responses are for the owner of the token, so caches must not store
# them (RFC 9111 §5.2.2.5), unless a response has its own Cache-Control. Browsers must not guess
# a content type other than the declared one.
_NO_STORE: Final = (b"cache-control", b"no-store")
_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")

_STATUSES_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

# How a response ends, if not by its Content-Length (RFC 9112 §6.3).
_NO_BODY: Final = -1
_CHUNKS: Final = -2
_CLOSE: Final = -3  # for HTTP/1.0, which knows no chunks

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
_DISCONNECT: Final[Event] = {"type": "http.disconnect"}


class Channel(Protocol):
    """What an exchange needs of its connection.

    Attributes:
        server: address and port of this side.
        client: address and port of the client.
        scheme: http or https.
        default_fields: the fields of all responses.

    """

    server: tuple[str, int] | None
    client: tuple[str, int] | None
    scheme: str

    @property
    def default_fields(self) -> tuple[tuple[bytes, bytes], ...]:
        """The fields of all responses."""

    def hold_body(self, size: int) -> None:
        """Note that so many bytes of the body are held. Read more if that is little."""

    def is_client_gone(self) -> bool:
        """Return whether the client has closed its side; if so, close ours."""

    def write(self, data: bytes) -> None:
        """Write a part of the response, at once."""

    async def drain(self) -> None:
        """Wait until the client has read nearly all of what was written."""

    def end_response(self, head: bytes, body: bytes) -> None:
        """Write a response, or its end, when this iteration of the event loop ends."""


class Exchange:
    """A request and its response.

    Attributes:
        task: runs the application; None before its start.
        has_token: whether the token of the request is valid. The application sets it.
        keeps_alive: whether the connection may be used for another request.
        awaits_continue: whether the client waits for a 100 before it sends the body.
        body: what has arrived of the body, and the application has not received.
        scope: ASGI's; empty after the end of the application.

    """

    def __init__(self, channel: Channel, request: Request, progress: Progress) -> None:
        self._channel = channel
        self._progress = progress
        self.scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": request.version,
            "server": channel.server,
            "client": channel.client,
            "scheme": channel.scheme,
            "root_path": "",
            "headers": request.fields,
            "method": request.method,
            "raw_path": request.raw_path,
            "path": request.path,
            "query_string": request.query,
            EXCHANGE: self,
        }
        self.task: asyncio.Task[None] | None = None
        self.keeps_alive = request.keeps_alive
        self.awaits_continue = request.expects_continue
        self.has_token = False
        # The application always receives a first piece, which may be empty. So it need not wait for
        # the body to refuse a request.
        self._has_news = True
        self.body = b""
        self._failure: RequestError | None = None  # of the body
        self._waiter: asyncio.Future[None] | None = None
        self._head = b""  # until it is written
        self._framing = _NO_BODY

    # The connection calls these methods, each after the event of the request.

    def add_body(self, piece: bytes) -> None:
        """Take a piece of the body."""
        self.awaits_continue = False
        if not self._progress.state.is_over:  # otherwise nobody reads it
            self.body = self.body + piece if self.body else piece
            self._has_news = True
            self.wake()

    def end_body(self) -> None:
        """Note that the whole body has arrived."""
        self.awaits_continue = False
        self._has_news = True
        self.wake()

    def fail_body(self, error: RequestError) -> None:
        """Raise an error in the application instead of what it has not received of the body.

        Without this, data that arrives later could be joined to what arrived before a gap.
        """
        self._failure = error
        self.keeps_alive = self._has_news = False
        self.body = b""
        self.wake()

    def wake(self) -> None:
        """Let `receive` look again at what has arrived."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The application calls these methods: those of ASGI 3, and those of `ExchangeControl`.

    def stream_body(self) -> None:
        """Note that the application reads the body as a stream."""
        self._progress.enter(states.STREAM_BODY)

    def is_client_gone(self) -> bool:
        """Return whether the client has closed its side of the connection."""
        return self._channel.is_client_gone()

    async def receive(self) -> Event:
        """Return what has arrived of the body since the last call.

        The first call returns at once, even if nothing has arrived. A further call tells the client
        to send the body if it waits for that (RFC 9110 §10.1.1).

        Raises:
            ClientGoneError: the client disconnected before the end of the body, or has got a
                response.
            RequestError: a streamed body is not valid, or too large.

        """
        progress = self._progress
        if not progress.state.is_over:
            self._channel.hold_body(len(self.body))
        while not self._has_news:
            if progress.state.is_over:
                if progress.state.request is states.WHOLE:
                    return _DISCONNECT
                raise ClientGoneError
            if self._failure is not None:
                # A new error: the traceback of each has a frame, which refers to this object.
                raise RequestError(self._failure.code, self._failure.message)
            if self.awaits_continue:
                self.awaits_continue = False
                self._channel.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        self._has_news = False
        body, self.body = self.body, b""
        if not progress.state.is_over:
            self._channel.hold_body(len(body))  # until the application asks for more
        return {
            "type": "http.request",
            "body": body,
            "more_body": progress.state.request is not states.WHOLE,
        }

    async def send(self, message: Event) -> None:
        """Write a part of the response. The head is written together with the first piece.

        A response has a Content-Length and one piece, or it is chunked; to a client of HTTP/1.0, it
        ends when the connection closes.

        Raises:
            ConnectionResetError: the client disconnected before the end of a response of
                several pieces.
            ConnectionAbortedError: a part of the response is written, so another one cannot replace
                it.
            RuntimeError: a field has a line end in it, or the piece has another length.

        """
        channel, progress = self._channel, self._progress
        has_more = message.get("more_body", False)
        if progress.state.is_over:
            if has_more:
                raise ConnectionResetError("The client disconnected")
            return
        if message["type"] == "http.response.start":
            self._begin(message)
            return
        piece = message.get("body", b"")
        begin, framing = self._head, self._framing
        if framing is _NO_BODY:
            piece = b""
        elif framing is _CHUNKS:
            chunk = b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
            piece = chunk if has_more else chunk + b"0\r\n\r\n"
        elif framing is not _CLOSE and (has_more or len(piece) != framing):
            raise RuntimeError("The body of the response has another length than Content-Length")
        self._head = b""
        if has_more:
            progress.enter(states.PIECE)
            channel.write(begin + piece)
            await channel.drain()
        else:
            progress.enter(states.LAST_PIECE)
            self.body = b""
            channel.end_response(begin, piece)

    def _begin(self, message: Event) -> None:
        if self._progress.state.response is states.BEGUN:
            raise ConnectionAbortedError("A part of the response is written")
        if self.awaits_continue:  # whether the client sends the body now is unknown
            self.keeps_alive = False
        self._head, self._framing = render_head(
            message["status"],
            tuple(message["headers"]),
            self._channel.default_fields,
            is_head=self.scope["method"] == "HEAD",
            is_chunkable=self.scope["http_version"] != "1.0",
            keeps_alive=self.keeps_alive,
        )
        self.scope[RESPONSE_STATUS] = message["status"]


@lru_cache(_CACHED_HEADS)
def render_head(
    status: int,
    fields: tuple[tuple[bytes, bytes], ...],
    default_fields: tuple[tuple[bytes, bytes], ...] = (),
    *,
    is_head: bool = False,
    is_chunkable: bool = True,
    keeps_alive: bool = True,
) -> tuple[bytes, int]:
    """Render the head of a response.

    Args:
        status: of the response.
        fields: of the response.
        default_fields: of all responses.
        is_head: whether it answers a HEAD request, and so has no body.
        is_chunkable: whether the client knows chunks.
        keeps_alive: whether the connection may be used for another request.

    Returns:
        The head, and the length of the body; or, if it has none, how the response ends.

    Raises:
        RuntimeError: a field has a line end in it.

    """
    by_name = dict(fields)
    lines = [*default_fields, *fields, _NO_SNIFF]
    length = by_name.get(b"content-length")
    framing = _NO_BODY
    if not is_head and status not in _STATUSES_WITHOUT_BODY:
        framing = int(length or (_CHUNKS if is_chunkable else _CLOSE))
    if framing == 0 and b"content-type" in by_name:  # it describes nothing (RFC 9110 §8.3)
        lines.remove((b"content-type", by_name[b"content-type"]))
    if b"cache-control" not in by_name:
        lines.append(_NO_STORE)
    if framing == _CHUNKS:
        lines.append((b"transfer-encoding", b"chunked"))
    if not keeps_alive:
        lines.append((b"connection", b"close"))
    head = b"\r\n".join(map(b": ".join, lines))
    if not head.count(b"\r") == head.count(b"\n") == len(lines) - 1:
        raise RuntimeError("A field of the response has a line end in it")
    phrase = HTTPStatus(status).phrase.encode()
    return b"HTTP/1.1 %d %b\r\n%b\r\n\r\n" % (status, phrase, head), framing
