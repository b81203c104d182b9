"""One HTTP/1.1 connection: a protocol for uvicorn's setting `http`.

Theory of operation
-------------------
The connection reads one request at a time: bytes behind it stay unread until it is answered and the
client has read the response. So pipelined requests cost only the memory for their bytes, and an
iteration of the event loop handles at most one request of each connection.

`plantstore.server.http11` finds the requests in the bytes, and checks them.
`plantstore.server.states` says how far the current one is, and what follows from it.
`plantstore.server.exchange` passes it to the application, and its response back.
`plantstore.server.deadlines` decides when a client is late, with one timer for all requests of the
connection.
"""

import asyncio
import logging
import select
import socket
import struct
from typing import Any, Final

from uvicorn import Config
from uvicorn.server import ServerState

from plantstore.errors import ErrorCode, InternalError, RequestError
from plantstore.observe import RequestRefused
from plantstore.server import states
from plantstore.server.deadlines import Deadlines
from plantstore.server.exchange import Exchange, render_head
from plantstore.server.http11 import (
    NEED_DATA,
    HeadRefusedError,
    Request,
    RequestReader,
)
from plantstore.server.interface import (
    BODY,
    CONNECTION_CONFIG,
    RESPONSE_STATUS,
    Budget,
    ConnectionConfig,
)
from plantstore.server.states import Due, Progress, RequestEvent, Responder

# While more than this many bytes of a body wait for the application, the socket is not read.
HELD_BODY_BYTES_MAX: Final = 64 * 1024

# While more than this many bytes are unread, the next request of the connection waits. A larger
# response is still written at once. This limits the memory for many small unread responses.
UNSENT_BYTES_HIGH: Final = 16 * 1024

# A request may arrive in this many small pieces. After each further piece, the socket is not
# read for GATHERING_SECONDS, so that the kernel collects the data: a piece takes six
# microseconds here, and one of an import takes fifty more in the thread that parses it.
SMALL_PIECES_MAX: Final = 16
SMALL_PIECE_BYTES: Final = 2 * 1024
GATHERING_SECONDS: Final = 0.02

# For SO_LINGER: the kernel discards what the client has not read when the socket is closed.
_DISCARD: Final = struct.pack("ii", 1, 0)

# Fraction of the shutdown timeout after which slow readers are dropped.
_STOP_PART: Final = 0.9


class Connection(asyncio.Protocol):
    """An HTTP connection with limits.

    Args:
        config: uvicorn's.
        server_state: uvicorn's: the connections, the tasks and the default fields.
        app_state: of ASGI's lifespan protocol; has the `ConnectionConfig`.
        _loop: the event loop; None means the running one.

    Attributes:
        config: what the application gave.
        server: address and port of this side.
        client: address and port of the client.
        scheme: http or https.
        held_bytes: of requests that are not answered.

    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.config: ConnectionConfig = app_state[CONNECTION_CONFIG]
        self.server: tuple[str, int] | None = None
        self.client: tuple[str, int] | None = None
        self._app = config.loaded_app
        self._stop_seconds = config.timeout_graceful_shutdown or 0
        self._server_state: Any = server_state
        self._loop = _loop or asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._reader = RequestReader()
        # The request that is arriving, or whose response is not written; None before its head has
        # arrived.
        self._exchange: Exchange | None = None
        self._progress = Progress(states.CONNECTED)
        self._response: tuple[bytes, bytes] = (b"", b"")
        self._budget = self.config.budget
        self.held_bytes = 0
        self._deadlines = Deadlines(
            request_seconds=self.config.request_seconds,
            idle_seconds=self.config.idle_seconds,
            clock=self._loop.time,
        )
        self._timer: asyncio.TimerHandle
        self._small_pieces = 0
        self._is_lost = False
        # Whether to let the kernel collect data, and whether data that was read waits.
        self._is_gathering = self._is_behind = False
        self._is_paused = False
        self._drained: asyncio.Event | None = None  # while too many bytes are unread

    # The event loop calls these methods (asyncio.Protocol).

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless too many are open."""
        self._transport = transport
        transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)
        self.server, self.client = (
            # A socket of both families shows 127.0.0.1 as ::ffff:127.0.0.1 (RFC 4291 §2.5.5.2).
            (name[0].removeprefix("::ffff:"), name[1]) if isinstance(name, tuple) else None
            for name in map(transport.get_extra_info, ("sockname", "peername"))
        )
        self.scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        connections = self._server_state.connections
        connections.add(self)
        self._timer = self._loop.call_at(self._deadlines.next_check, self._check_deadlines)
        if len(connections) > self.config.connections_max:
            message = "Too many connections are open; nothing was done"
            self._refuse(RequestError(ErrorCode.TOO_MANY_CONNECTIONS, message))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        """Release everything that belongs to the connection."""
        self._is_lost = True
        self._progress.enter(states.CLOSE)
        self._server_state.connections.discard(self)
        self._timer.cancel()
        self._end_unread()
        self._discard_received()
        if self._exchange is not None:
            self._exchange.wake()
            self._exchange = None

    def data_received(self, data: bytes) -> None:
        """Read the data up to the end of a request, unless too many bytes are held."""
        if self._takes_no_more():  # TLS may have read it already
            return
        budget = self._budget
        self.held_bytes += len(data)
        budget.incoming_bytes += len(data)
        if budget.incoming_bytes > budget.incoming_bytes_max and not self._may_hold(budget):
            self._refuse_for_memory()
            return
        if self._transport.is_closing():  # it has made room itself
            self._hold(0)
            return
        self._reader.receive_data(data)
        self._advance()
        if len(data) < SMALL_PIECE_BYTES and self._progress.state.is_arriving:
            self._small_pieces += 1
            if self._small_pieces > SMALL_PIECES_MAX:
                self._is_gathering = True
                self._read_or_pause()
                self._loop.call_later(GATHERING_SECONDS, self._end_gathering)

    def pause_writing(self) -> None:
        """Read no further request until the client has read its response."""
        self._drained = asyncio.Event()
        size = self._transport.get_write_buffer_size()
        has_token = self._exchange is not None and self._exchange.has_token
        self._budget.begin_unread(self, size, has_token=has_token)

    def resume_writing(self) -> None:
        """Go on with the next request, or with the response that waits."""
        self._end_unread()
        self._deadlines.drain()
        if self._is_behind:
            self._loop.call_soon(self._go_on)

    # Requests.

    def _enter(self, event: RequestEvent) -> None:
        self._progress.enter(event)
        self._deadlines.follow(self._progress.state.deadline)

    def _begin_next_request(self) -> None:
        self._exchange = None
        self._progress = Progress(states.IDLE)
        self._deadlines.follow(self._progress.state.deadline)

    def _advance(self) -> None:
        """Read events up to the end of a request, and start the application."""
        self._is_behind = False
        try:
            while not self._must_wait():
                if not self._read_request():
                    break
            else:
                self._is_behind = self._reader.unread_bytes > 0
        except RequestError as error:
            self._refuse(error)
        state, exchange = self._progress.state, self._exchange
        if exchange is None or not state.is_served:
            self._hold(self._reader.unread_bytes)
        elif state.request is states.STREAM:
            self._hold(self._reader.unread_bytes + len(exchange.body))
        elif exchange.task is None:
            exchange.task = self._loop.create_task(self._serve(exchange))
            self._server_state.tasks.add(exchange.task)
        self._read_or_pause()

    def _read_request(self) -> bool:
        """Read events up to the end of a request, and return True; False if it has not arrived."""
        reader = self._reader
        while True:
            event = reader.next_event()
            has_begun = event is not NEED_DATA or reader.unread_bytes > 0
            if has_begun and not self._progress.state.is_arriving:
                self._enter(states.FIRST_BYTE)
                if event is NEED_DATA:
                    self._budget.begin_head(self)
            if event is NEED_DATA:
                return False
            if isinstance(event, Request):
                self._enter(states.HEAD_END)
                self._budget.end_head(self)
                self._exchange = Exchange(self, event, self._progress)
            elif self._exchange is None:
                return False
            elif isinstance(event, bytes):
                self._exchange.add_body(event)
                if reader.is_chunked and reader.unread_bytes:
                    self._is_behind = True  # an iteration has one piece of a chunked body
                    self._loop.call_soon(self._go_on)
                    return False
            else:
                self._small_pieces = 0
                self._enter(states.LAST_BYTE)
                self._exchange.end_body()
                if self._progress.state.response is states.WRITTEN:
                    self._begin_next_request()
                return True

    async def _serve(self, exchange: Exchange) -> None:
        """Run the application. End a response that the application does not end."""
        progress = self._progress
        if progress.state.request is states.WHOLE:
            exchange.scope[BODY] = exchange.body
        try:
            await self._app(exchange.scope, exchange.receive, exchange.send)
            if not progress.state.is_over:
                await self._end_failed(exchange)
        except ConnectionError:  # the response cannot be completed
            if not progress.state.is_over:
                self.abort()
        except (Exception, asyncio.CancelledError):
            logging.getLogger(__name__).exception("The application raised an exception")
            if not progress.state.is_over:
                await self._end_failed(exchange)
        finally:
            exchange.scope = {}  # it refers to the exchange
            self._server_state.tasks.discard(exchange.task)

    async def _end_failed(self, exchange: Exchange) -> None:
        if self._progress.state.response is states.BEGUN:
            self.abort()
            return
        exchange.keeps_alive = False
        response = self.config.render_error(InternalError(), exchange.scope["headers"])
        start = {"type": "http.response.start", "status": response.status}
        await exchange.send(start | {"headers": response.fields()})
        await exchange.send({"type": "http.response.body", "body": response.body})

    def _must_wait(self) -> bool:
        """Return whether a response must be written, or read, before more data is read."""
        return (
            self._progress.state.is_complete
            or self._drained is not None
            or self._transport.is_closing()
        )

    def _takes_no_more(self) -> bool:
        """Return whether the connection closes behind the response, and takes nothing before."""
        exchange, state = self._exchange, self._progress.state
        return state.is_complete and exchange is not None and not exchange.keeps_alive

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._advance()

    def _end_gathering(self) -> None:
        self._is_gathering = False
        self._go_on()

    def hold_body(self, size: int) -> None:
        """Note that so many bytes of the body are held. Read more if that is little."""
        if self._progress.state.request is states.STREAM:
            self._hold(self._reader.unread_bytes + size)
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Read the socket, unless there is enough to do with the data that was read."""
        exchange = self._exchange
        is_paused = (
            self._is_gathering
            or self._is_behind
            or (exchange is not None and len(exchange.body) > HELD_BODY_BYTES_MAX)
            or self._takes_no_more()
        )
        if is_paused is not self._is_paused and not self._transport.is_closing():
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _may_hold(self, budget: Budget) -> bool:
        """Return whether the connection may hold what it does, after others have made room."""
        budget.make_room()
        return budget.incoming_bytes <= budget.incoming_bytes_max or budget.is_equal_share(
            self.held_bytes, self._server_state.connections
        )

    def _discard_received(self) -> None:
        """Discard what was not read of the client's data."""
        self._budget.end_head(self)
        self._reader = RequestReader()
        self._hold(0)

    def _hold(self, size: int) -> None:
        self._budget.incoming_bytes += size - self.held_bytes
        self.held_bytes = size

    def is_client_gone(self) -> bool:
        """Return whether the client has closed its side; if so, close ours.

        While the socket is not read, the event loop does not notice it.
        """
        if not self._transport.is_closing():
            poll = select.poll()
            poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
            if not poll.poll(0):
                return False
            self.abort()
        return True

    # Responses.

    @property
    def default_fields(self) -> tuple[tuple[bytes, bytes], ...]:
        """The fields of all responses."""
        return tuple(self._server_state.default_headers)

    def write(self, data: bytes) -> None:
        """Write a part of a response."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def drain(self) -> None:
        """Wait until the client has read nearly all of what was written."""
        if self._drained is not None:
            await self._drained.wait()

    def _end_unread(self) -> None:
        self._budget.end_unread(self)
        if self._drained is not None:
            self._drained.set()
            self._drained = None

    def end_response(self, head: bytes, body: bytes) -> None:
        """Write a response, or its end, when this iteration of the event loop ends."""
        self._response = (head, body)
        self.config.iteration_end.add(self._loop, self)

    def write_response(self) -> None:
        """Write the response, or its end, and go on with the next request."""
        exchange = self._exchange
        if exchange is None or self._transport.is_closing():
            return
        head, body = self._response
        self._response = (b"", b"")
        # One write, so that `pause_writing` counts all of it.
        self._transport.write(head + body)
        self._deadlines.drain()
        self._progress.enter(states.WRITE)
        if self._progress.state.request is states.WHOLE:
            self._begin_next_request()
        else:
            self._deadlines.follow(self._progress.state.deadline)
        self._hold(self._reader.unread_bytes)
        if not exchange.keeps_alive:
            self._transport.close()
        elif self._is_behind:
            self._loop.call_soon(self._go_on)
        else:
            self._read_or_pause()

    def abort(self) -> None:
        """Close the connection at once. The client notices that its response is incomplete.

        Without SO_LINGER, the kernel would keep megabytes for a client that reads nothing.
        """
        if not self._is_lost:
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DISCARD)
            self._transport.abort()

    def drop(self) -> None:
        """Close the connection if it waits for its client: the service needs its memory now."""
        if self._drained is not None:
            self._discard_received()
            self.abort()
        elif self._exchange is None and self._reader.unread_bytes:  # an incomplete head
            self._refuse_for_memory()

    def _refuse_for_memory(self) -> None:
        done = "" if self._progress.state.request is states.STREAM else "; nothing was done"
        message = f"The requests in progress use too much memory{done}"
        self._refuse(RequestError(ErrorCode.OVERLOADED, message))
        self._read_or_pause()

    def _refuse(self, error: RequestError) -> None:
        """End the request with an error, and take nothing more of the connection."""
        exchange, responder = self._exchange, self._progress.state.responder
        self._discard_received()
        if self._transport.is_closing():
            return
        if exchange is None or responder is Responder.CONNECTION:
            self._write_error(error, exchange)
        elif responder is Responder.APPLICATION:
            self._enter(states.FAIL_BODY)
            exchange.fail_body(error)
        elif self._progress.state.response is states.WRITTEN:
            self._transport.close()
        else:
            exchange.keeps_alive = False

    def _write_error(self, error: RequestError, exchange: Exchange | None) -> None:
        self.config.observe(RequestRefused(error.code))
        known = error.fields if isinstance(error, HeadRefusedError) else ()
        request_fields = known if exchange is None else exchange.scope["headers"]
        response = self.config.render_error(error, request_fields)
        fields = tuple(response.fields())
        head, _ = render_head(response.status, fields, self.default_fields, keeps_alive=False)
        self._progress.enter(states.CLOSE)
        is_head = exchange is not None and exchange.scope["method"] == "HEAD"
        self._transport.write(head if is_head else head + response.body)
        self._transport.close()
        if exchange is not None:
            exchange.scope[RESPONSE_STATUS] = response.status
            exchange.fail_body(error)

    # Time.

    def shutdown(self) -> None:
        """Close when the request is answered; drop a slow reader before the timeout.

        uvicorn calls this when the server stops.
        """
        if self._exchange is None or not self._progress.state.is_served:
            self._transport.close()
        else:
            self._exchange.keeps_alive = False
        self._loop.call_later(_STOP_PART * self._stop_seconds, self._drop_slow_reader)

    def _drop_slow_reader(self) -> None:
        if self._transport.get_write_buffer_size() or self._transport.is_closing():
            self.abort()

    def _check_deadlines(self) -> None:
        exchange, state = self._exchange, self._progress.state
        self._deadlines.follow(state.deadline)  # the application may stream the body now
        due = self._deadlines.check(
            unsent_bytes=self._transport.get_write_buffer_size(),
            is_closing=self._transport.is_closing(),
            may_send=self._is_gathering
            or not (self._is_paused or (exchange is not None and exchange.awaits_continue)),
        )
        if due is Due.REFUSE:
            seconds = self.config.request_seconds
            message = f"The request did not arrive completely within {seconds:g} seconds"
            self._refuse(RequestError(ErrorCode.REQUEST_TIMEOUT, message))
        elif due is Due.CLOSE:
            self._transport.close()
        elif due is Due.ABORT:
            self.abort()
            return
        self._timer = self._loop.call_at(self._deadlines.next_check, self._check_deadlines)
