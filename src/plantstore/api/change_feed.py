"""`/changes`: the changes of the plants, as pages of JSON or as a stream of Server-Sent Events.

A stream is a request that does not end. It needs no thread and no timer of its own: the `Tail`
wakes all streams when there are changes, and also several times a second. Then each stream checks
whether its client still reads, whether its token is still valid, and whether a comment is due.
"""

import time
from collections.abc import AsyncGenerator, Callable
from typing import Final

from plantstore.api.auth import Authenticator
from plantstore.api.limits import ConcurrencyLimit
from plantstore.api.paging import link, parse_limit
from plantstore.api.parameters import (
    MEDIA_JSON,
    invalid,
    json_head,
    json_response,
    parse_integer,
    read_query,
)
from plantstore.commit.reader import GroupRead
from plantstore.commit.tail import Tail, events_of, first_of
from plantstore.errors import RequestError, StoreUnavailableError
from plantstore.feed import ChangesPage, render_changes
from plantstore.messages import Request, Response
from plantstore.store import PlantStore

SCOPE: Final = "changes:read"
EVENT_STREAM: Final = "text/event-stream"

# Changes that a stream reads at once. Their events are usually sent at once.
STREAM_CHANGES_MAX: Final = 500

# Streams of each worker. An idle one has 30 KiB, so all have less than 50 MiB; and to write to all
# of them takes less than a tenth of a second. A token may have three quarters of them.
STREAMS_MAX: Final = 1_500

# After this time without an event, a comment is sent. Proxies close connections that are idle for a
# minute, and the HTML standard advises 15 seconds.
COMMENT_SECONDS: Final = 15.0

# The time after which a client connects again, in milliseconds.
RETRY_MILLISECONDS: Final = 1000


class ChangeFeed:
    """The operation of `/changes`. Its methods must be called on one event loop."""

    def __init__(
        self,
        authenticator: Authenticator,
        reader: GroupRead,
        tail: Tail,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticator = authenticator
        self._reader = reader
        self.tail = tail
        self._now = monotonic
        self.limit = ConcurrencyLimit(STREAMS_MAX, "streams of changes")
        self._is_stopping = False

    def stop(self) -> None:
        """End all streams now, and accept no more. Their clients connect to another process."""
        self._is_stopping = True
        self.tail.end()

    async def follow(self, request: Request) -> Response:
        """Return the changes after a number, or send them as they are made."""
        parameters = read_query(request, "after", "limit")
        limit = parse_limit(parameters)
        after = _parse_after("after", parameters.get("after", "0"))
        if request.method == "GET" and _wants_events(request):
            response = await self._stream(request, after)
        elif request.method == "HEAD":
            await self._reader.read(request, PlantStore.read_changes, after, 1)
            response = json_head()
        else:
            page = await self._reader.read(request, PlantStore.read_changes, after, limit)
            response = json_response(render_changes(page.items), {"Changes-After": str(page.end)})
            if not page.is_last:
                response.fields["Link"] = link("changes", "next", parameters, after=page.end)
        response.fields["Vary"] = "Accept"
        return response

    async def _stream(self, request: Request, after: int | None) -> Response:
        if (last := request.fields.get("last-event-id")) is not None:
            after = _parse_after("Last-Event-ID", last)
        page = await self._reader.read(request, PlantStore.read_changes, after, STREAM_CHANGES_MAX)
        if self._is_stopping:
            raise StoreUnavailableError("The service is stopping; connect again")
        number = page.end if after is None else after
        events = self._events(request, page, number)
        await anext(events)  # from now on, it counts as a stream
        fields = {
            "Content-Type": f"{EVENT_STREAM}; charset=utf-8",
            "Changes-After": str(number),
            "X-Accel-Buffering": "no",  # nginx passes each event on at once
        }
        return Response(200, fields, events)

    async def _events(
        self, request: Request, page: ChangesPage, number: int
    ) -> AsyncGenerator[bytes, None]:
        """Yield the events for one client. The first item is empty.

        When it is yielded, the stream counts as one. Close the generator to end it.

        Raises:
            RequestError: OVERLOADED, if too many streams are open.

        """
        self.limit.acquire(request.token)
        self.tail.add_follower()
        generation, token, sent_at = self.tail.generation, request.token, self._now()
        try:
            yield b""
            # A client that gets no change before it is disconnected resumes at this position.
            begin = (
                f"retry: {RETRY_MILLISECONDS}\nid: {number}\nevent: position\n"
                f'data: {{"number":{number}}}\n\n'
            )
            first, number = first_of(events_of(page), number)
            events: bytes | None = begin.encode() + first
            del page, first
            while generation == self.tail.generation and await self._may_continue(request):
                if events is None:
                    events, number = await self._next(request, number)
                if events or self._now() - sent_at >= COMMENT_SECONDS:
                    sent_at = self._now()
                    yield events or b":\n"  # a comment
                else:
                    await self.tail.news
                events = None
        except RequestError:  # the client connects again, and gets the error
            return
        finally:
            self.limit.release(token)
            self.tail.remove_follower()

    async def _may_continue(self, request: Request) -> bool:
        """Return whether the client is connected, and its token still valid."""
        if request.is_client_gone():
            return False
        try:
            await self._authenticator.authorize(request, SCOPE, uses=0)
        except RequestError as error:
            return isinstance(error, StoreUnavailableError)  # it is not known now
        return True

    async def _next(self, request: Request, number: int) -> tuple[bytes, int]:
        """Return the events after a number, and the number of the last one."""
        if (found := self.tail.events_after(number)) is not None:
            return found
        page = await self._reader.read(request, PlantStore.read_changes, number, STREAM_CHANGES_MAX)
        return first_of(events_of(page), number)


def _wants_events(request: Request) -> bool:
    """Return whether Accept names the type of a stream, and not JSON before it.

    Weights do not count: generated clients accept JSON and a stream, in this order.
    """
    ranges = request.fields.get("accept", "").lower().split(",")
    names = (each.partition(";")[0].strip() for each in ranges)
    named = [name for name in names if name in {MEDIA_JSON, EVENT_STREAM}]
    return named[:1] == [EVENT_STREAM]


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
