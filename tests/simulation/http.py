"""A client of HTTP on a transport without a socket."""

import asyncio
import contextlib
import json
import math
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import NamedTuple

import httptools

from simulation.service import Service
from support.wire import chunk

EVERYTHING = 10**9

# How likely there is no memory for a piece of a slow request, and some for the next one.
PRESSED = 0.01

# Each request must get a response, or the end of its connection, in this time.
ANSWER_SECONDS = 90.0


class Response(NamedTuple):
    """A complete response."""

    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def message(self) -> str:
        return str(json.loads(self.body).get("message", "")) if self.status >= 400 else ""


class LostError(Exception):
    """The connection ended before a complete response."""


class LateError(Exception):
    """There is no response in time."""


class Http:
    """A connection of a client.

    Args:
        service: to connect to.
        chance: decides about pieces and pauses.
        is_slow: whether the client sends and reads in pieces.
        pauses: of a slow client between two pieces.

    """

    def __init__(
        self,
        service: Service,
        chance: random.Random,
        *,
        is_slow: bool = False,
        pauses: Sequence[float] = (0, 0.001, 0.02, 0.5),
    ) -> None:
        self._pauses = pauses
        self._service = service
        self._transport = service.connect()
        self._chance = chance
        self._is_slow = is_slow
        self._parser = httptools.HttpResponseParser(self)
        self._parsed = 0  # bytes of what the transport has sent
        self._has_head = False
        self._complete: deque[Response] = deque()
        if not is_slow:
            self._transport.read(EVERYTHING)

    async def send(self, data: bytes) -> None:
        """Send data; a slow client sends pieces."""
        while data and not self._transport.is_closing():
            size = self._chance.choice([1, 20, 300, 5000]) if self._is_slow else len(data)
            has_room = not self._is_slow or self._chance.random() > PRESSED
            with contextlib.nullcontext() if has_room else self._service.pressure():
                self._transport.arrive(data[:size])
            data = data[size:]
            if self._is_slow:
                await asyncio.sleep(self._chance.choice(self._pauses))

    def leave(self) -> None:
        self._transport.leave()

    async def response(self) -> Response:
        """Return the next response.

        Raises:
            LostError: the connection ended before it was complete.
            LateError: it is not complete in time.

        """
        ends = asyncio.get_running_loop().time() + ANSWER_SECONDS
        while not self._complete:
            await self._more(ends)
        return self._complete.popleft()

    async def status(self) -> int:
        """Return the status of the next response, of which only the head has arrived."""
        ends = asyncio.get_running_loop().time() + ANSWER_SECONDS
        while not self._has_head:
            await self._more(ends)
        return self._parser.get_status_code()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield what arrives of the body of the next response, without a time limit."""
        while not self._complete:
            yield b"".join(self._body)
            self._body.clear()
            await self._more(math.inf)
        raise LostError  # the stream has ended

    async def _more(self, ends: float) -> None:
        """Wait until more has arrived, and parse it."""
        loop = asyncio.get_running_loop()
        if len(self._transport.sent) == self._parsed:
            if self._transport.is_lost:
                raise LostError
            if loop.time() > ends:
                raise LateError
            await self._wait(ends)
        arrived = self._transport.sent[self._parsed :]
        self._parsed += len(arrived)
        self._parser.feed_data(arrived)

    async def _wait(self, ends: float) -> None:
        if self._is_slow:
            self._transport.read(self._chance.choice([10, 1000, 100_000]))
            await asyncio.sleep(self._chance.choice([0.001, 0.01, 0.1]))
            return
        loop = asyncio.get_running_loop()
        news = loop.create_future()

        def notify() -> None:
            if not news.done():
                news.set_result(None)

        self._transport.notify = notify
        late = None if ends == math.inf else loop.call_at(ends + 1, notify)
        try:
            await news
        finally:
            if late is not None:
                late.cancel()

    # What the parser has found.

    def on_message_begin(self) -> None:
        self._fields: dict[str, str] = {}
        self._body: list[bytes] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields[name.decode().lower()] = value.decode()

    def on_headers_complete(self) -> None:
        self._has_head = self._parser.get_status_code() != HTTPStatus.CONTINUE

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._has_head:
            status = self._parser.get_status_code()
            self._complete.append(Response(status, self._fields, b"".join(self._body)))


def request(
    method: str, path: str, token: str, body: bytes | None = None, *more: str, pieces: int = 0
) -> bytes:
    """Return a request; its body is chunked if a number of pieces is given."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *more]
    if body is None:
        data = b""
    elif pieces:
        lines.append("Transfer-Encoding: chunked")
        size = max(1, len(body) // pieces)
        data = b"".join(chunk(body[at : at + size]) for at in range(0, len(body), size))
        data += b"0\r\n\r\n"
    else:
        lines.append(f"Content-Length: {len(body)}")
        data = body
    return "\r\n".join([*lines, "", ""]).encode() + data
