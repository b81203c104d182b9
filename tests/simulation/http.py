"""A client of HTTP on a transport without a socket."""

import asyncio
import contextlib
import json
import math
import random
from collections.abc import Sequence
from typing import NamedTuple

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
        self._used = 0
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
        while (found := parse(self._transport.sent[self._used :])) is None:
            await self._more(ends)
        response, size = found
        self._used += size
        return response

    async def chunk(self) -> bytes:
        """Return the next chunk of a body, without a time limit."""
        size = int(await self.through(b"\r\n", math.inf), 16)
        end = self._used + size + len(b"\r\n")
        while len(self._transport.sent) < end:
            await self._more(math.inf)
        data = self._transport.sent[self._used : end - 2]
        self._used = end
        if not data:
            raise LostError  # the stream has ended
        return data

    async def through(self, text: bytes, seconds: float = ANSWER_SECONDS) -> bytes:
        """Return what comes up to a text, and skip the text."""
        ends = asyncio.get_running_loop().time() + seconds
        while (found := self._transport.sent.find(text, self._used)) < 0:
            await self._more(ends)
        data = self._transport.sent[self._used : found]
        self._used = found + len(text)
        return data

    async def _more(self, ends: float) -> None:
        loop = asyncio.get_running_loop()
        if self._transport.is_lost:
            raise LostError
        if loop.time() > ends:
            raise LateError
        if self._is_slow:
            self._transport.read(self._chance.choice([10, 1000, 100_000]))
            await asyncio.sleep(self._chance.choice([0.001, 0.01, 0.1]))
            return
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


def parse(data: bytes) -> tuple[Response, int] | None:
    """Return a response and its size; None if it is incomplete."""
    head, end, rest = data.partition(b"\r\n\r\n")
    if not end:
        return None
    status = int(head.split(b" ", 2)[1])
    if status == 100:
        found = parse(rest)
        return None if found is None else (found[0], len(head) + 4 + found[1])
    lines = (line.decode().partition(": ") for line in head.split(b"\r\n")[1:])
    fields = {name.lower(): value for name, _, value in lines}
    size: int | None = 0
    body = b""
    if status not in (204, 304):
        if "content-length" in fields:
            size = int(fields["content-length"])
            body = rest[:size]
            size = None if len(rest) < size else size
        else:
            body, size = chunks(rest)
    if size is None:
        return None
    return Response(status, fields, body), len(head) + 4 + size


def chunks(data: bytes) -> tuple[bytes, int | None]:
    """Return a chunked body and its size with the chunks; None for the size if it is incomplete."""
    body, position = b"", 0
    while True:
        end = data.find(b"\r\n", position)
        if end < 0:
            return body, None
        size = int(data[position:end], 16)
        if len(data) < end + 2 + size + 2:
            return body, None
        body += data[end + 2 : end + 2 + size]
        position = end + 2 + size + 2
        if size == 0:
            return body, position


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
