"""What one connection may take of the service: its time, its memory, its place."""

import asyncio
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from uvicorn.config import Config
from uvicorn.server import ServerState

from plantstore.api.protocol import HttpProtocol
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import Observer, RequestRefused

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

# Where the application leaves the bounds for its connections, in the state that a server
# carries from its start to each of them.
BOUNDS: Final = "plantstore.bounds"

# A client that takes an answer takes so much of it in the time that a request has.
TAKEN_BYTES_MIN: Final = 64 * 1024

# Of the head, so much does not count: method, version, and the ends of two lines.
_UNCOUNTED_BYTES: Final = 64

# A look that comes so much later than it was to tells that the loop was held up, and
# may not have read yet what clients sent in time.
LATE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What connections are held to.

    Args:
        request_seconds: in which a request arrives whole, the first or the next
            one begins, and some of an answer is taken.
        head_bytes_max: of the request target and the header fields.
        connections_max: that are open at a time.
        unsent_answers_max: large answers that are on their way at a time; past it, the
            client that is the slowest to take its own is hung up on.
        observe: is told what is refused.

    """

    request_seconds: float
    head_bytes_max: int
    connections_max: int
    unsent_answers_max: int
    observe: Observer


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
        self._look_at = 0.0
        # Since when the client owes a request, and whether it has begun one.
        self._owes_since = 0.0
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
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
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
        """Wait until the client took some of its answer; of too many who wait, give one up."""
        super().pause_writing()
        self._unsent_since = self.loop.time()
        waiting = [
            each
            for each in self.connections
            if isinstance(each, BoundedConnection) and each.flow.write_paused
        ]
        if len(waiting) > self._bounds.unsent_answers_max:
            min(waiting, key=attrgetter("_unsent_since")).transport.abort()

    def refuse(self, error: RequestError) -> None:
        """Answer what did not become a request, and hang up."""
        self._bounds.observe(RequestRefused(error.code))
        super().refuse(error)

    def _look_in(self, seconds: float) -> None:
        self._look_at = self.loop.time() + seconds
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Hang up if the client owes something for too long; if not, look again when it may."""
        patience = self._bounds.request_seconds
        now = self.loop.time()
        if self.transport.get_write_buffer_size():
            if self._takes_nothing():
                self.transport.abort()
            else:
                self._look_in(patience)
            return
        self._taken = None
        if now > self._look_at + LATE_SECONDS:
            self._owes_since = now
        left = self._owes_since + patience - now if self._owes_a_request() else patience
        if left > 0:
            self._look_in(left)
        elif self._is_arriving:
            message = f"The request did not arrive whole within {patience:g} seconds"
            self.refuse(RequestError(ErrorCode.REQUEST_TIMEOUT, message))
            self._look_in(patience)
        else:
            self.transport.close()
            self._look_in(patience)

    def _owes_a_request(self) -> bool:
        if self.flow.read_paused:
            return False
        request: RequestResponseCycle | None = self.cycle
        return request is None or request.response_complete or request.more_body

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
