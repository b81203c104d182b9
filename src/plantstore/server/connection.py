"""The time and memory limits of one connection."""

import asyncio
from typing import Any, Final

from plantstore.errors import ErrorCode, RequestError
from plantstore.server.deadlines import Deadlines, Due
from plantstore.server.protocol import HttpProtocol

# Fraction of the shutdown timeout after which slow readers are dropped.
_STOP_PART: Final = 0.9


class BoundedConnection(HttpProtocol):
    """An HTTP connection with limits.

    Each connection has one timer for all of its requests. When the timer fires,
    `plantstore.server.deadlines` decides what is done.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(*args, **kwargs)
        self._bounds = self.connection_config.bounds
        self._budget = self._bounds.budget
        self._deadlines: Deadlines
        self._timer: asyncio.TimerHandle | None = None
        self._stop: asyncio.TimerHandle | None = None
        # Bytes of unanswered requests.
        self._incoming_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless too many are open."""
        super().connection_made(transport)
        bounds = self._bounds
        self._deadlines = Deadlines(
            request_seconds=bounds.request_seconds,
            idle_seconds=bounds.idle_seconds,
            clock=self.loop.time,
        )
        self._timer = self.loop.call_at(self._deadlines.next_check, self._check_deadlines)
        if len(self.connections) > bounds.connections_max:
            message = "Too many connections are open; nothing was done"
            self.refuse(RequestError(ErrorCode.TOO_MANY_CONNECTIONS, message))

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers, and release the memory."""
        for timer in (self._timer, self._stop):
            if timer is not None:
                timer.cancel()
        self._budget.end_unsent(self.transport)
        super().connection_lost(exc)
        self._hold_incoming(0)

    def data_received(self, data: bytes) -> None:
        """Parse the data, unless too many bytes are held."""
        budget = self._budget
        self._incoming_bytes += len(data)
        budget.incoming_bytes += len(data)
        if budget.incoming_bytes > budget.incoming_bytes_max and not budget.allows(
            self._incoming_bytes, self.connections
        ):
            done = "" if self.is_streamed() else "; nothing was done"
            message = f"The requests in progress use too much memory{done}"
            self.refuse(RequestError(ErrorCode.OVERLOADED, message))
            return
        super().data_received(data)
        if self.is_answered:
            self._hold_incoming(len(self._unparsed) + self.framing.head_bytes)
        elif self.is_streamed():
            self._hold_incoming(len(self._unparsed) + len(self.cycle.body))
        if self.framing.head_bytes > self._bounds.head_bytes_max:
            self._refuse_head()

    def _hold_incoming(self, size: int) -> None:
        self._budget.incoming_bytes += size - self._incoming_bytes
        self._incoming_bytes = size

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self.refuse(self._head_too_large())

    def on_message_begin(self) -> None:
        """Begin a request, and set its deadline."""
        super().on_message_begin()
        self._deadlines.begin_request()

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large."""
        if self.framing.head_bytes > self._bounds.head_bytes_max:
            raise self._head_too_large()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End a request."""
        super().on_message_complete()
        self._deadlines.end_request()

    def on_response_complete(self) -> None:
        """Wait for the next request. The rest of this one is discarded when it arrives."""
        super().on_response_complete()
        self._deadlines.end_answer()
        self._hold_incoming(len(self._unparsed))

    def pause_writing(self) -> None:
        """Pause writing until the client has read its response."""
        super().pause_writing()
        self._budget.begin_unsent(self.transport)

    def resume_writing(self) -> None:
        """Resume writing."""
        self._budget.end_unsent(self.transport)
        self._deadlines.drain()
        super().resume_writing()

    def shutdown(self) -> None:
        """Close when all requests are answered; drop a slow reader before the timeout."""
        super().shutdown()
        patience = self.config.timeout_graceful_shutdown or 0
        self._stop = self.loop.call_later(_STOP_PART * patience, self._abort_slow_reader)

    def _abort_slow_reader(self) -> None:
        if self.transport.get_write_buffer_size() or self.transport.is_closing():
            self.transport.abort()

    def _check_deadlines(self) -> None:
        due = self._deadlines.check(
            unsent_bytes=self.transport.get_write_buffer_size(),
            is_closing=self.transport.is_closing(),
            may_send=self._is_gathering or self.may_send(),
        )
        if due is Due.REFUSE and self.is_streamed():
            self._deadlines.stream_request()
        elif due is Due.REFUSE:
            seconds = self._bounds.request_seconds
            message = f"The request did not arrive completely within {seconds:g} seconds"
            self.refuse(RequestError(ErrorCode.REQUEST_TIMEOUT, message))
        elif due is Due.CLOSE:
            self.transport.close()
        elif due is Due.ABORT:
            self.transport.abort()
            return
        self._timer = self.loop.call_at(self._deadlines.next_check, self._check_deadlines)

    def _head_too_large(self) -> RequestError:
        return RequestError(
            ErrorCode.HEAD_TOO_LARGE,
            f"The head must be no larger than {self._bounds.head_bytes_max} bytes",
        )
