"""What one connection may take of the service: its time and its memory."""

import asyncio
from typing import TYPE_CHECKING, Any, Final, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from plantstore.api.errors import ANSWERED, STATUS
from plantstore.api.limits import BOUNDS, Bounds
from plantstore.api.protocol import HttpProtocol
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import RequestRefused

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

# Minimum number of bytes of an answer that a client must read per `request_seconds`.
TAKEN_BYTES_MIN: Final = 64 * 1024

# Grace period after a deadline: data may be waiting in the socket if the loop was blocked.
GRACE_SECONDS: Final = 0.1

# Fraction of the shutdown timeout after which slow readers are dropped.
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
        self._budget = self._bounds.budget
        self._watch: asyncio.TimerHandle | None = None
        self._stop: asyncio.TimerHandle | None = None
        # Since when the client owes a request, and whether it has begun one.
        self._owes_since = 0.0
        self._out_of_time_since = -1.0
        self._is_arriving = False
        # Bytes of requests without an answer.
        self._incoming_bytes = 0
        self._answers = 0
        self._taken: tuple[int, int] | None = None

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
        self._budget.end_unsent(self)
        super().connection_lost(exc)
        self._hold_incoming(0)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, unless too much of it is held."""
        budget = self._budget
        self._incoming_bytes += len(data)
        budget.incoming_bytes += len(data)
        if budget.incoming_bytes > budget.incoming_bytes_max and not budget.allows(
            self._incoming_bytes, self.connections
        ):
            message = "Too many bytes of requests are held; nothing was done"
            self.refuse(RequestError(ErrorCode.OVERLOADED, message))
            return
        super().data_received(data)
        request: RequestResponseCycle | None = self.cycle
        if request is None or request.response_complete:
            self._hold_incoming(len(self._unparsed) + self._framing.head_bytes)
        if self._framing.head_bytes > self._bounds.head_bytes_max:
            self._refuse_head()

    def _hold_incoming(self, size: int) -> None:
        self._budget.incoming_bytes += size - self._incoming_bytes
        self._incoming_bytes = size

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self.refuse(self._head_too_large())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._is_arriving = True
        self._owes_since = self.loop.time()

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large."""
        if self._framing.head_bytes > self._bounds.head_bytes_max:
            raise self._head_too_large()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End the request."""
        super().on_message_complete()
        self._is_arriving = False
        self._owes_since = self.loop.time()

    def on_response_complete(self) -> None:
        """Wait for the next request; what still comes of this one is dropped."""
        super().on_response_complete()
        self._answers += 1
        self._owes_since = self.loop.time()
        self._hold_incoming(len(self._unparsed))
        if self.cycle.more_body:
            self._is_arriving = False

    def pause_writing(self) -> None:
        """Wait until the client took some of its answer."""
        super().pause_writing()
        self._budget.begin_unsent(self)

    def resume_writing(self) -> None:
        """Go on when it has."""
        self._budget.end_unsent(self)
        super().resume_writing()

    def unsent_bytes(self) -> int:
        """Return how many bytes of answers the client has not taken."""
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        """Close the connection at once; what was not taken of an answer is dropped."""
        self.transport.abort()

    def shutdown(self) -> None:
        """Close when what was asked is answered; drop a slow reader before the timeout."""
        super().shutdown()
        patience = self.config.timeout_graceful_shutdown or 0
        self._stop = self.loop.call_later(_STOP_PART * patience, self._abort_slow_reader)

    def _abort_slow_reader(self) -> None:
        if self.unsent_bytes() or self.transport.is_closing():
            self.abort()

    def refuse(self, error: RequestError) -> None:
        """Answer what did not become a request, and close the connection."""
        if not self._is_an_answer_due():
            self._bounds.observe(RequestRefused(error.code))
            request: RequestResponseCycle | None = self.cycle
            if request is not None and not request.response_complete:
                cast("dict[str, Any]", request.scope)[ANSWERED] = STATUS[error.code].value
        super().refuse(error)

    def _look_in(self, seconds: float) -> None:
        self._watch = self.loop.call_later(seconds, self._look)

    def _look(self) -> None:
        """Close the connection if the client is late; if not, look again when it may be."""
        patience = self._bounds.request_seconds
        if self.unsent_bytes():
            if self._takes_nothing():
                self.abort()
            else:
                self._look_in(patience)
            return
        self._taken = None
        if self.transport.is_closing():  # and the client, who speaks TLS, does not say goodbye
            self.abort()
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
            self._close_late()
            self._look_in(patience)

    def _close_late(self) -> None:
        if self._is_arriving:
            message = (
                f"The request did not arrive whole within {self._bounds.request_seconds:g} seconds"
            )
            self.refuse(RequestError(ErrorCode.REQUEST_TIMEOUT, message))
        else:
            self.transport.close()

    def _owes_a_request(self) -> bool:
        if self.flow.read_paused and not self._is_gathering:
            return False
        request: RequestResponseCycle | None = self.cycle
        if request is None or request.response_complete:
            return True
        return request.more_body and not request.waiting_for_100_continue

    def _takes_nothing(self) -> bool:
        """Tell whether too little was taken since the last look at an answer on its way."""
        unsent = self.unsent_bytes()
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
