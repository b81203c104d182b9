"""What one connection may take of the service: its time, its memory, its place."""

import asyncio
import heapq
from operator import attrgetter
from typing import Any, Final, cast

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
from uvicorn.server import ServerState

from plantstore.api.errors import ANSWERED, STATUS
from plantstore.api.limits import BOUNDS, Bounds
from plantstore.api.protocol import HttpProtocol
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import RequestRefused

# A client that takes an answer takes so much of it in the time that a request has.
TAKEN_BYTES_MIN: Final = 64 * 1024

# Requests that wait on a connection for the one before them. Each takes a hundred times as
# much of the memory as of the wire.
REQUESTS_AHEAD_MAX: Final = 500

# Of the head, so much does not count: method, version, and the ends of two lines.
_UNCOUNTED_BYTES: Final = 64

# Who is out of time is looked at once more so much later: if the loop was held up, what
# they sent in time is read by then.
GRACE_SECONDS: Final = 0.1

# Of the time that a stop waits, the part after which who does not take an answer is given up.
_STOP_PART: Final = 0.9


class BoundedConnection(HttpProtocol):
    """HTTP within bounds.

    One timer watches over each connection, however many requests it brings, and
    looks now and then whether the client owes something: a request that is whole,
    or to take what it was answered.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._bounds: Bounds = app_state[BOUNDS]
        self._watch: asyncio.TimerHandle | None = None
        self._stop: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        # Since when the client owes a request, and whether it has begun one.
        self._owes_since = 0.0
        self._out_of_time_since = -1.0
        self._is_arriving = False
        # What came since a message, the end of its head, or a piece of its body was seen in it.
        self._bytes_before_news = 0
        self._piece_bytes = 0
        self._first_piece_bytes = 0
        self._answers = 0
        self._taken: tuple[int, int] | None = None
        self._unsent_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._bounds.connections_max:
            message = "Too many connections are open; nothing was done"
            self.refuse(RequestError(ErrorCode.TOO_MANY_CONNECTIONS, message))
        self._owes_since = self.loop.time()
        self._look_in(self._bounds.request_seconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        for timer in (self._watch, self._stop):
            if timer is not None:
                timer.cancel()
        # Uvicorn tells the request that came last, which need not be the one that is served.
        self.pipeline.clear()
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, as far as a head, or trailer fields, may go."""
        self._piece_bytes = len(data)
        self._bytes_before_news += self._piece_bytes
        super().data_received(data)
        if (
            self._bytes_before_news > self._bounds.head_bytes_max + _UNCOUNTED_BYTES
            and not self.transport.is_closing()
        ):
            self.refuse(self._head_too_large())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_arriving = True
        self._owes_since = self.loop.time()
        self._bytes_before_news = 0
        self._first_piece_bytes = self._piece_bytes

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large."""
        if self._bytes_before_news + self._first_piece_bytes > self._bounds.head_bytes_max:
            # It may be: where in its first piece it began, the parser does not tell.
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self._bounds.head_bytes_max:
                raise self._head_too_large()
        self._bytes_before_news = 0
        if len(self.pipeline) >= REQUESTS_AHEAD_MAX:
            message = f"No more than {REQUESTS_AHEAD_MAX} requests may be sent ahead"
            raise RequestError(ErrorCode.BAD_REQUEST, message)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._bytes_before_news = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        super().on_message_complete()
        self._is_arriving = False
        self._owes_since = self.loop.time()
        self._bytes_before_news = 0

    def on_response_complete(self) -> None:
        """Wait for the next request; what still comes of this one is dropped."""
        super().on_response_complete()
        self._answers += 1
        self._owes_since = self.loop.time()
        if self.cycle.response_complete and self.cycle.more_body:
            self._is_arriving = False

    def pause_writing(self) -> None:
        """Wait until the client took some of its answer; of too many who wait, give some up."""
        super().pause_writing()
        self._unsent_since = self.loop.time()
        waiting = [
            each
            for each in self.connections
            if isinstance(each, BoundedConnection) and each.flow.write_paused
        ]
        excess = len(waiting) - self._bounds.unsent_answers_max
        for slowest in heapq.nsmallest(excess, waiting, key=attrgetter("_unsent_since")):
            slowest.give_up()

    def shutdown(self) -> None:
        """Close when what was asked is answered; give up in time who does not take an answer."""
        super().shutdown()
        patience = self.config.timeout_graceful_shutdown or 0
        self._stop = self.loop.call_later(_STOP_PART * patience, self._give_up_unsent)

    def _give_up_unsent(self) -> None:
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            self.give_up()

    def refuse(self, error: RequestError) -> None:
        """Answer what did not become a request, and hang up."""
        if not self._is_an_answer_due():
            self._bounds.observe(RequestRefused(error.code))
            request: RequestResponseCycle | None = self.cycle
            if request is not None and not request.response_complete:
                cast("dict[str, Any]", request.scope)[ANSWERED] = STATUS[error.code].value
        super().refuse(error)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:  # noqa: ANN401 (uvicorn's)
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _look_in(self, seconds: float) -> None:
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Hang up if the client owes something for too long; if not, look again when it may."""
        patience = self._bounds.request_seconds
        if self.transport.get_write_buffer_size():
            if self._takes_nothing():
                self.give_up()
            else:
                self._look_in(patience)
            return
        self._taken = None
        if self.transport.is_closing():  # and the client, who speaks TLS, does not say goodbye
            self.give_up()
            return
        left = self._owes_since + patience - self.loop.time()
        if not self._owes_a_request():
            self._look_in(patience)
        elif left > 0:
            self._look_in(left)
        elif self._out_of_time_since != self._owes_since:
            self._out_of_time_since = self._owes_since
            self._look_in(GRACE_SECONDS)
        else:
            self._hang_up()
            self._look_in(patience)

    def _hang_up(self) -> None:
        if self._is_arriving:
            message = (
                f"The request did not arrive whole within {self._bounds.request_seconds:g} seconds"
            )
            self.refuse(RequestError(ErrorCode.REQUEST_TIMEOUT, message))
        else:
            self.transport.close()

    def give_up(self) -> None:
        """Close the connection without a word; who is answered is not told the rest."""
        self.transport.abort()

    def _owes_a_request(self) -> bool:
        if self.flow.read_paused:
            return False
        request: RequestResponseCycle | None = self.cycle
        if request is None or request.response_complete:
            return True
        return request.more_body and not request.waiting_for_100_continue

    def _takes_nothing(self) -> bool:
        """Tell whether too little was taken since the last look at an answer on its way."""
        unsent = self.transport.get_write_buffer_size()
        before, self._taken = self._taken, (self._answers, unsent)
        if before is None:
            return False
        answers, unsent_before = before
        return self._answers == answers and unsent > unsent_before - TAKEN_BYTES_MIN

    def _head_too_large(self) -> RequestError:
        return RequestError(
            ErrorCode.HEAD_TOO_LARGE,
            f"The head must be no larger than {self._bounds.head_bytes_max} bytes",
        )
