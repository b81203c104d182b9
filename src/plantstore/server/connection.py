"""One HTTP/1.1 connection: a protocol of asyncio.

Theory of operation
-------------------
The connection reads one request at a time: bytes behind it stay unread until it is answered and the
client has read the response. So pipelined requests cost only the memory for their bytes, and an
iteration of the event loop handles at most one request of each connection.

`plantstore.server.http11` finds the requests in the bytes, checks them, and renders the responses.
`plantstore.server.states` says how far the current one is, and what follows from it.
`plantstore.server.deadlines` decides when a client is late, with one timer for all requests of the
connection.
A task for each request calls the application, and writes its response. If the body of the request
has not arrived by then, `plantstore.server.exchange` gives the application what arrives of it.
"""

import asyncio
import contextlib
import logging
import select
import socket
import struct
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Final

from plantstore.errors import ClientGoneError, ErrorCode, RequestError
from plantstore.messages import Address, Application, Request, Response
from plantstore.observe import Observer, Responded
from plantstore.server import states
from plantstore.server.budget import Budget
from plantstore.server.deadlines import Deadlines
from plantstore.server.exchange import NO_REQUEST, Body, Exchange
from plantstore.server.forwarded import IPV4_MAPPED, TrustedProxies
from plantstore.server.http11 import (
    LAST_CHUNK,
    NEED_DATA,
    Head,
    HeadRefusedError,
    RequestReader,
    Signal,
    WholeRequest,
    render_chunk,
    render_head,
)
from plantstore.server.states import STATES, Due, RequestEvent, Responder

# While more than this many bytes of a body wait for the application, the socket is not read.
HELD_BODY_BYTES_MAX: Final = 64 * 1024

# A response is written in pieces of this size, each when the kernel has taken the one before. So a
# connection holds one piece of a file that others share. TLS holds a piece again, encrypted.
PIECE_BYTES: Final = 16 * 1024

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

_CONNECTED: Final = STATES[states.CONNECTED, states.AWAITED]
_IDLE: Final = STATES[states.IDLE, states.AWAITED]
_LOST: Final = STATES[states.CONNECTED, states.CLOSED]


@dataclass(slots=True)
class Server:
    """What the connections of a process serve, and what they share.

    Attributes:
        application: responds to the requests.
        request_seconds: the time in which a request must arrive completely, a new connection
            must begin its first request, and a client must read some of its response.
        idle_seconds: how long a connection may be idle between two requests.
        stop_seconds: how long a shutdown waits for requests in progress.
        connections_max: the number of open connections.
        proxies: tell the addresses of their clients.
        budget: limits the memory of all connections together.
        observe: is called for each response.
        connections: those that are open.
        tasks: those of the requests in progress.
        date: the present, as HTTP has it.
        answered: the connections whose responses are written when this iteration of the event loop
            ends. Otherwise each client that is woken sends its next request alone, and the batches
            get smaller.

    """

    application: Application
    request_seconds: float
    idle_seconds: float
    stop_seconds: float
    connections_max: int
    proxies: TrustedProxies
    budget: Budget
    observe: Observer
    connections: "set[Connection]" = field(default_factory=set)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    date: str = ""
    answered: "list[Connection]" = field(default_factory=list)

    def end_iteration(self) -> None:
        """Write the responses."""
        connections, self.answered = self.answered, []
        for connection in connections:
            try:
                connection.write_response()
            except Exception:  # such as MemoryError; the others have responses, too
                logging.getLogger(__name__).exception("A response could not be written")
                connection.abort()


class Connection(asyncio.Protocol):
    """An HTTP connection with limits.

    Attributes:
        held_bytes: of requests that are not answered.

    """

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._proxies = server.proxies or None
        self._application = server.application
        self._client: Address | None = None
        self._loop = loop
        self._transport: asyncio.Transport
        self._reader = RequestReader()
        # Of the request that is arriving, or whose response is not written.
        self._exchange = Exchange(_CONNECTED, NO_REQUEST)
        self._response: tuple[bytes, bytes] = (b"", b"")
        self._budget = server.budget
        self.held_bytes = 0
        self._deadlines = Deadlines(
            request_seconds=server.request_seconds,
            idle_seconds=server.idle_seconds,
            clock=loop.time,
        )
        self._timer: asyncio.TimerHandle
        self._is_lost = False
        self._small_pieces = 0  # of the request that is arriving
        self._is_gathering = False  # whether the kernel collects small pieces
        self._is_behind = False  # whether the reader has bytes that wait for their turn
        self._is_paused = False  # whether the socket is not read, for these or for other reasons
        # Set when the client has read what was written; None while it has nothing to read.
        self._until_drained: asyncio.Event | None = None
        # Bytes of the present part of a response that are not written yet.
        self._left_bytes = 0

    # The event loop calls these methods (asyncio.Protocol).

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection, unless too many are open."""
        self._transport = transport
        transport.set_write_buffer_limits(high=0)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            # A socket of both families shows 127.0.0.1 as ::ffff:127.0.0.1.
            self._client = (peer[0].removeprefix(IPV4_MAPPED), peer[1])
        self._scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        connections = self._server.connections
        connections.add(self)
        self._timer = self._loop.call_at(self._deadlines.next_check, self._check_deadlines)
        if len(connections) > self._server.connections_max:
            message = "Too many connections are open; nothing was done"
            self._refuse(RequestError(ErrorCode.TOO_MANY_CONNECTIONS, message))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        """Release everything that belongs to the connection."""
        self._is_lost = True
        self._exchange.enter(states.CLOSE)
        self._server.connections.discard(self)
        self._timer.cancel()
        self._end_unread()
        self._discard_received()
        if self._exchange.arriving is not None:
            self._exchange.arriving.wake()
            self._exchange.arriving = None
        self._exchange = Exchange(_LOST, NO_REQUEST)  # the other one refers to this connection

    def data_received(self, data: bytes) -> None:
        """Read the data up to the end of a request, unless too many bytes are held."""
        budget = self._budget
        self.held_bytes += len(data)
        budget.incoming_bytes += len(data)
        if budget.incoming_bytes > budget.incoming_bytes_max and not self._may_hold():
            self._refuse_for_memory()
            return
        if self._transport.is_closing():  # it has made room itself
            self._hold(0)
            return
        self._reader.receive_data(data)
        self._advance()
        if self._exchange.state.is_arriving and len(data) < SMALL_PIECE_BYTES:
            self._small_pieces += 1
            if self._small_pieces > SMALL_PIECES_MAX:
                self._is_gathering = True
                self._read_or_pause()
                self._loop.call_later(GATHERING_SECONDS, self._end_gathering)

    def pause_writing(self) -> None:
        """Write no more, and read no further request, until the client has read what is written."""
        self._until_drained = asyncio.Event()

    def resume_writing(self) -> None:
        """Go on with the next request, or with the response that waits."""
        self._end_unread()
        if not self._left_bytes:
            self._deadlines.drain()
        if self._is_behind:
            self._loop.call_soon(self._go_on)

    # Requests.

    def _enter(self, event: RequestEvent) -> None:
        self._exchange.enter(event)
        self._deadlines.follow(self._exchange.state.deadline)

    def _begin_request(self, event: RequestEvent, head: Head, body: bytes | None) -> None:
        """Begin a request; its body is None if it has not arrived."""
        exchange = self._exchange
        if exchange.state.request is states.HEAD:
            self._budget.end_head(self)
        exchange.enter(event)
        self._deadlines.follow(exchange.state.deadline)
        if body is None:
            exchange.arriving = Body(self, exchange, awaits_continue=head.expects_continue)
        exchange.keeps_alive = head.keeps_alive
        exchange.request = Request(
            head.method,
            head.path,
            head.query,
            head.fields,
            body or b"",
            self._client,
            self._scheme,
            head.version,
            head.raw_path,
            self.is_client_gone,
        )
        if self._proxies is not None:
            self._proxies.correct(exchange.request)

    def _begin_next_request(self) -> None:
        self._exchange.arriving = None  # it refers to the exchange
        self._exchange = Exchange(_IDLE, NO_REQUEST)
        self._small_pieces = 0
        self._deadlines.follow(_IDLE.deadline)

    def _advance(self) -> None:
        """Read events up to the end of a request, and start the application."""
        self._is_behind = False
        try:
            # A response must be written, and read, before more data is read.
            while not (
                self._exchange.state.is_complete
                or self._until_drained is not None
                or self._transport.is_closing()
            ):
                if not self._read_event():
                    break
            else:
                self._is_behind = self._reader.unread != b""
        except RequestError as error:
            self._refuse(error)
        exchange = self._exchange
        state = exchange.state
        if not state.is_served:
            self._hold(len(self._reader.unread))
        elif state.request is states.STREAM and exchange.arriving is not None:
            self._hold(len(self._reader.unread) + len(exchange.arriving.held))
        elif exchange.task is None:
            exchange.task = self._loop.create_task(self._serve(exchange))
            self._server.tasks.add(exchange.task)
        self._read_or_pause()

    def _read_event(self) -> bool:
        """Read an event of the request; return whether to read a further one now."""
        reader, exchange = self._reader, self._exchange
        event = reader.next_event()
        if isinstance(event, WholeRequest):
            self._begin_request(states.ARRIVAL, event.head, event.body)
        elif isinstance(event, Head):
            self._begin_request(states.HEAD_END, event, None)
        elif event is NEED_DATA:
            if reader.unread and not exchange.state.is_arriving:
                self._enter(states.FIRST_BYTE)
                self._budget.begin_head(self)
            return False
        elif exchange.arriving is not None:
            return self._read_body(exchange.arriving, event)
        return True

    def _read_body(self, arriving: Body, event: bytes | Signal) -> bool:
        """Give the application a piece of the body, or its end."""
        if isinstance(event, bytes):
            arriving.add(event)
            if self._reader.is_chunked and self._reader.unread:
                self._is_behind = True  # an iteration has one piece of a chunked body
                self._loop.call_soon(self._go_on)
                return False
        else:
            self._enter(states.LAST_BYTE)
            arriving.end()
            if self._exchange.state.response is states.WRITTEN:
                if not self._exchange.keeps_alive:
                    self._transport.close()
                    return False
                self._begin_next_request()
        return True

    def _go_on(self) -> None:
        if not self._transport.is_closing():
            self._advance()

    def _end_gathering(self) -> None:
        self._is_gathering = False
        self._go_on()

    def hold_body(self, size: int) -> None:
        """Note that so many bytes of the body are held. Read more if that is little."""
        if self._exchange.state.request is states.STREAM:
            self._hold(len(self._reader.unread) + size)
        self._read_or_pause()

    def _read_or_pause(self) -> None:
        """Read the socket, unless there is enough to do with the data that was read."""
        exchange = self._exchange
        is_paused = (
            self._is_gathering
            or self._is_behind
            or (exchange.arriving is not None and len(exchange.arriving.held) > HELD_BODY_BYTES_MAX)
            or (not exchange.keeps_alive and exchange.state.is_complete)
        )
        if is_paused is not self._is_paused and not self._transport.is_closing():
            self._is_paused = is_paused
            if is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _may_hold(self) -> bool:
        """Return whether the connection may hold what it does, after others have made room."""
        budget = self._budget
        budget.make_room()
        bytes_max = budget.incoming_bytes_max
        is_small = self.held_bytes * self._server.connections_max <= bytes_max
        return is_small or budget.incoming_bytes <= bytes_max

    def _discard_received(self) -> None:
        """Discard what was not read of the client's data."""
        self._budget.end_head(self)
        self._reader = RequestReader()
        self._hold(0)

    def _hold(self, size: int) -> None:
        """Note how many bytes of the client's requests are held."""
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

    async def _serve(self, exchange: Exchange) -> None:
        """Call the application, and write its response."""
        began = perf_counter()
        request, arriving = exchange.request, exchange.arriving
        if arriving is not None:
            request.body = arriving.held if exchange.state.request is states.WHOLE else arriving
        try:
            await self._respond(exchange, await self._application(request))
        except (Exception, asyncio.CancelledError) as error:
            if exchange.state.response is not states.AWAITED:
                if exchange.state.response is states.BEGUN:
                    self.abort()  # so the client notices that its response is incomplete
                if not isinstance(error, (RequestError, asyncio.CancelledError)):
                    logging.getLogger(__name__).exception("A response was cut off")
            elif not isinstance(error, ClientGoneError):
                await self._fail(exchange, error)
        finally:
            request.body = b""  # the other one refers to the exchange, which refers to the request
            self._server.tasks.discard(exchange.task)
            seconds = perf_counter() - began
            self._server.observe(Responded(request, exchange.status, seconds))

    async def _fail(self, exchange: Exchange, error: BaseException) -> None:
        """Write the response for an error."""
        try:
            await self._respond(exchange, self._application.fail(error, exchange.request))
        except Exception:  # such as MemoryError
            logging.getLogger(__name__).exception("An error could not be sent")
            self.abort()

    async def _respond(self, exchange: Exchange, response: Response) -> None:
        """Write a response. The head is written together with the first piece of the body.

        Raises:
            RuntimeError: a field has a line end in it.

        """
        request, arriving, body = exchange.request, exchange.arriving, response.body
        if arriving is not None and arriving.awaits_continue:
            exchange.keeps_alive = False  # whether the client sends the body now is unknown
        if not isinstance(body, bytes):
            async with contextlib.aclosing(body):
                await self._respond_in_parts(exchange, response, body)
            return
        length = len(body)
        # Links may be as long as a head, so the cache would be large.
        render = render_head.__wrapped__ if "Link" in response.fields else render_head
        head = render(
            response.status,
            tuple(response.fields.items()),
            length,
            self._server.date,
            False,  # noqa: FBT003
            exchange.keeps_alive,
        )
        if request.method == "HEAD":
            body = b""
        elif length > PIECE_BYTES:
            if exchange.state.request is states.WHOLE:  # the application has read it
                request.body = b""
                self._hold(len(self._reader.unread))
            await self._write_part(exchange, response, head, body)
            head = body = b""
        self._end_response(exchange, response, head, body)

    async def _respond_in_parts(
        self, exchange: Exchange, response: Response, parts: AsyncGenerator[bytes, None]
    ) -> None:
        """Write a response whose body is chunked. For HTTP/1.0, it ends with the connection."""
        request, date = exchange.request, self._server.date
        has_body = request.method != "HEAD"
        is_chunked = has_body and request.version != "1.0"
        fields = tuple(response.fields.items())
        head = render_head(response.status, fields, None, date, is_chunked, exchange.keeps_alive)
        if has_body:
            async for part in parts:
                piece = render_chunk(part) if is_chunked else part
                await self._write_part(exchange, response, head, piece)
                head = b""
                if exchange.state.is_over:
                    break
        self._end_response(exchange, response, head, LAST_CHUNK if is_chunked else b"")

    async def _write_part(
        self, exchange: Exchange, response: Response, head: bytes, part: bytes
    ) -> None:
        """Write a part of a response in pieces, as far as the client reads them."""
        held = 0 if response.is_shared else len(part)
        for start in range(0, max(1, len(part)), PIECE_BYTES):
            if exchange.state.is_over:
                break
            exchange.status = response.status
            exchange.enter(states.PIECE)
            end = start + PIECE_BYTES
            self._left_bytes = max(0, len(part) - end)
            self._write(head + part[start:end], held)
            head = b""
            if self._until_drained is not None:
                await self._until_drained.wait()

    def _write(self, data: bytes, held: int = 0) -> None:
        """Write data. `held` are the bytes that the service holds until the client has read it."""
        if not self._transport.is_closing():
            self._transport.write(data)
            if self._until_drained is not None:
                self._begin_unread(len(data) + held)

    def _begin_unread(self, size: int) -> None:
        self._budget.begin_unread(self, size, has_token=self._exchange.request.token != "")

    def permit_body(self) -> None:
        """Tell the client to send the body. Its time begins now."""
        self._deadlines.restart()
        self._write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _end_unread(self) -> None:
        self._budget.end_unread(self)
        if self._until_drained is not None:
            self._until_drained.set()
            self._until_drained = None

    def _end_response(
        self, exchange: Exchange, response: Response, head: bytes, body: bytes
    ) -> None:
        """Write a response, or its end, when this iteration of the event loop ends."""
        if exchange.state.is_over:
            return
        exchange.status = response.status
        exchange.enter(states.LAST_PIECE)
        self._response = (head, body)
        if exchange.arriving is not None:
            exchange.arriving.held = b""  # nobody reads it
        answered = self._server.answered
        if not answered:
            self._loop.call_soon(self._server.end_iteration)
        answered.append(self)

    def write_response(self) -> None:
        """Write the response, or its end, and begin the next request."""
        exchange = self._exchange
        if self._transport.is_closing():
            return
        head, body = self._response
        self._response = (b"", b"")
        self._transport.write(head + body)
        if self._until_drained is not None:
            self._begin_unread(len(head) + len(body))
        self._deadlines.drain()
        exchange.enter(states.WRITE)
        if exchange.state.request is states.WHOLE:
            self._begin_next_request()
        else:
            self._deadlines.follow(exchange.state.deadline)
        self._hold(len(self._reader.unread))
        if not exchange.keeps_alive and not self._may_send_more(exchange):
            self._transport.close()
            return
        if not exchange.keeps_alive:
            self._transport.write_eof()
        if self._is_behind:
            self._loop.call_soon(self._go_on)
        elif self._is_paused:
            self._read_or_pause()

    def _may_send_more(self, exchange: Exchange) -> bool:
        """Return whether the client may still send its body, and would not see its response.

        If the kernel gets data for a connection that is closed, it resets the connection, and the
        client may lose the response (RFC 9112 §9.6). So only our side is closed at first, and a
        deadline bounds how long the rest of the body is discarded.
        """
        arriving = exchange.arriving
        is_awaited = arriving is not None and not arriving.awaits_continue
        return is_awaited and not exchange.state.is_complete

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
        if self._until_drained is not None:
            self._discard_received()
            self.abort()
        elif self._exchange.state.request is states.HEAD:
            self._refuse_for_memory()

    def _refuse_for_memory(self) -> None:
        done = "" if self._exchange.state.request is states.STREAM else "; nothing was done"
        message = f"The requests in progress use too much memory{done}"
        self._refuse(RequestError(ErrorCode.OVERLOADED, message))
        self._read_or_pause()

    def _refuse(self, error: RequestError) -> None:
        """End the request with an error, and take nothing more of the connection."""
        exchange = self._exchange
        responder = exchange.state.responder
        self._discard_received()
        if self._transport.is_closing():
            return
        if responder is Responder.CONNECTION:
            self._write_error(error, exchange)
        elif responder is Responder.APPLICATION:
            self._enter(states.FAIL_BODY)
            exchange.fail_body(error)
        elif exchange.state.response is states.WRITTEN:
            self._transport.close()
        else:
            exchange.keeps_alive = False

    def _write_error(self, error: RequestError, exchange: Exchange) -> None:
        request = exchange.request
        if isinstance(error, HeadRefusedError):
            request = Request("", "", fields=error.fields)
        try:
            response = self._application.fail(error, request)
            body = response.body if isinstance(response.body, bytes) else b""
            fields, date = tuple(response.fields.items()), self._server.date
            head = render_head(response.status, fields, len(body), date, keeps_alive=False)
        except Exception:  # such as MemoryError
            logging.getLogger(__name__).exception("An error could not be sent")
            self.abort()
            return
        exchange.status = response.status
        exchange.enter(states.CLOSE)
        self._write(head if request.method == "HEAD" else head + body)
        self._transport.close()
        exchange.fail_body(error)

    # Time, and the end of the service.

    def shutdown(self) -> None:
        """Close when the request is answered; drop a slow reader before the timeout.

        The server calls this when it stops.
        """
        if self._exchange.state.is_served:
            self._exchange.keeps_alive = False
        else:
            self._transport.close()
        self._loop.call_later(_STOP_PART * self._server.stop_seconds, self._drop_slow_reader)

    def _drop_slow_reader(self) -> None:
        if self._transport.get_write_buffer_size() or self._transport.is_closing():
            self.abort()

    def _check_deadlines(self) -> None:
        exchange = self._exchange
        arriving = exchange.arriving
        self._deadlines.follow(exchange.state.deadline)  # the application may stream the body now
        due = self._deadlines.check(
            unsent_bytes=self._transport.get_write_buffer_size() + self._left_bytes,
            is_closing=self._transport.is_closing(),
            may_send=self._is_gathering
            or not (self._is_paused or (arriving is not None and arriving.awaits_continue)),
        )
        if due is Due.REFUSE:
            seconds = self._server.request_seconds
            message = f"The request did not arrive completely within {seconds:g} seconds"
            self._refuse(RequestError(ErrorCode.REQUEST_TIMEOUT, message))
        elif due is Due.CLOSE:
            self._transport.close()
        elif due is Due.ABORT:
            self.abort()
            return
        self._timer = self._loop.call_at(self._deadlines.next_check, self._check_deadlines)
