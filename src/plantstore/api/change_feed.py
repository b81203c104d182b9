"""`/changes`: the changes of the plants, as pages of JSON or as a stream of Server-Sent Events.

A stream is a request that does not end. It needs no thread and no timer of its own: the `Tail`
wakes all streams when there are changes, and also several times a second. Then each stream checks
whether its client still reads, whether its token is still valid, and whether a comment is due.
"""

import time
from collections.abc import AsyncIterator, Callable
from typing import Final

from falcon import MEDIA_JSON
from falcon.asgi import Request, Response

from plantstore.api.auth import Authenticator, ConcurrencyLimit
from plantstore.api.paging import link, parse_limit
from plantstore.api.parameters import invalid, parse_integer, read_query
from plantstore.commit.reader import GroupRead
from plantstore.commit.tail import Tail, events_of, first_of
from plantstore.errors import RequestError, StoreUnavailableError
from plantstore.feed import ChangesPage, render_changes
from plantstore.server.interface import EXCHANGE, ExchangeControl
from plantstore.store import PlantStore

SCOPE: Final = "changes:read"
EVENT_STREAM: Final = "text/event-stream"

# Changes that a stream reads at once. Their events are usually sent at once.
STREAM_CHANGES_MAX: Final = 500

# Streams of each worker. An idle one has 30 KiB, so all have less than 50 MiB; and to write to all
# of them takes less than a tenth of a second. A token may have a thousand.
STREAMS_MAX: Final = 1_500

# How long nothing is sent before a comment is. Proxies close connections that are idle for a
# minute, and the HTML standard advises 15 seconds.
COMMENT_SECONDS: Final = 15.0

# The time after which a client connects again, in milliseconds.
RETRY_MILLISECONDS: Final = 1000


class Changes:
    """Answers with changes. Its methods must be called on one event loop.

    Args:
        authenticator: knows the tokens.
        reader: reads pages of the feed.
        tail: has the last events.
        monotonic: a clock in seconds that never goes back.

    """

    def __init__(
        self,
        authenticator: Authenticator,
        reader: GroupRead,
        tail: Tail,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.authenticator = authenticator
        self.reader = reader
        self.tail = tail
        self.now = monotonic
        self.limit = ConcurrencyLimit(STREAMS_MAX, "streams of changes")
        self._is_stopping = False

    def stop(self) -> None:
        """End all streams now, and accept no more. Their clients connect to another process."""
        self._is_stopping = True
        self.tail.end()

    async def on_get(self, req: Request, resp: Response) -> None:
        """Return the changes after a number, or send them as they are made."""
        token = await self.authenticator.authorize(req, SCOPE)
        parameters = read_query(req, "after", "limit")
        limit = parse_limit(parameters)
        after = _parse_after("after", parameters.get("after", "0"))
        media_type = req.client_prefers((MEDIA_JSON, EVENT_STREAM))
        if media_type == EVENT_STREAM and req.method == "GET":
            await self._stream(req, resp, token, after)
            resp.content_type = f"{EVENT_STREAM}; charset=utf-8"
        else:
            resp.content_type = MEDIA_JSON
            if req.method == "HEAD":
                # It has no field that the content determines (RFC 9110 §9.3.2): to read the page
                # would cost many times a create.
                await self.reader.read(PlantStore.read_changes, after, 1)
                resp.stream = _unread()
            else:
                page = await self.reader.read(PlantStore.read_changes, after, limit)
                resp.data = render_changes(page.items)
                resp.set_header("Changes-After", str(page.end))
                if not page.is_last:
                    resp.set_header("Link", link("changes", "next", parameters, after=page.end))
        resp.append_header("Vary", "Accept")

    on_head = on_get

    async def _stream(self, req: Request, resp: Response, token: str, after: int | None) -> None:
        if (last := req.get_header("Last-Event-ID")) is not None:
            after = _parse_after("Last-Event-ID", last)
        page = await self.reader.read(PlantStore.read_changes, after, STREAM_CHANGES_MAX)
        if self._is_stopping:
            raise StoreUnavailableError("The service is stopping; connect again")
        number = page.end if after is None else after
        resp.stream = _Stream(self, req, token, page, number)
        resp.set_header("Changes-After", str(number))
        resp.set_header("X-Accel-Buffering", "no")  # nginx passes each event on at once


async def _unread() -> AsyncIterator[bytes]:
    """Return the content for HEAD: Falcon does not read it, and sends no Content-Length."""
    yield b""


class _Stream:
    """The events for one client, as Falcon reads them. It counts as a stream until it is closed.

    Raises:
        RequestError: OVERLOADED, if too many streams are open.

    """

    def __init__(
        self, changes: Changes, req: Request, token: str, page: ChangesPage, number: int
    ) -> None:
        changes.limit.acquire(token)
        changes.tail.join()
        self._changes = changes
        self._generation = changes.tail.generation
        self._req = req
        self._token = token
        self._number = number
        self._page: ChangesPage | None = page  # until it is sent
        self._sent_at = changes.now()

    def __aiter__(self) -> "_Stream":
        return self

    async def __anext__(self) -> bytes:
        """Wait for events, or for the time of a comment."""
        while await self._may_continue():
            try:
                events = await self._next()
            except RequestError:  # the client connects again, and gets the error as an answer
                break
            if events or self._changes.now() - self._sent_at >= COMMENT_SECONDS:
                self._sent_at = self._changes.now()
                return events or b":\n"  # a comment
            await self._changes.tail.news
        raise StopAsyncIteration

    async def close(self) -> None:
        """Note that the stream has ended. Falcon calls this at the end."""
        self._changes.limit.release(self._token)
        self._changes.tail.leave()

    async def _may_continue(self) -> bool:
        exchange: ExchangeControl | None = self._req.scope.get(EXCHANGE)
        if self._generation != self._changes.tail.generation or (
            exchange and exchange.is_client_gone()
        ):
            return False
        try:
            await self._changes.authenticator.require_scope(self._req, SCOPE)
        except RequestError as error:
            return isinstance(error, StoreUnavailableError)  # it is not known now
        return True

    async def _next(self) -> bytes:
        if self._page is not None:
            # A client that gets no change before it is disconnected resumes at this position.
            begin = (
                f"retry: {RETRY_MILLISECONDS}\nid: {self._number}\nevent: position\n"
                f'data: {{"number":{self._number}}}\n\n'
            )
            events, self._number = first_of(events_of(self._page), self._number)
            events, self._page = begin.encode() + events, None
        elif (found := self._changes.tail.events_after(self._number)) is not None:
            events, self._number = found
        else:
            page = await self._changes.reader.read(
                PlantStore.read_changes, self._number, STREAM_CHANGES_MAX
            )
            events, self._number = first_of(events_of(page), self._number)
        return events


def _parse_after(name: str, text: str) -> int | None:
    """Return the number in a parameter or a field; None for the present.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    if text == "now":
        return None
    try:
        return parse_integer(text, name, minimum=0)
    except RequestError as error:
        raise invalid(f"{error.message}; `now` is the number of the last change") from None
