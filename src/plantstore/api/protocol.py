"""uvicorn's HTTP/1.1 protocol on httptools, with fixes for cases where it deviates from the RFCs.

Theory of operation
-------------------
The parser is fed one request at a time (`plantstore.api.framing` cuts them). What a client
sends behind it stays unparsed, and the socket is not read, until the request is answered and
the client has taken the answer. So requests sent ahead cost their bytes and nothing more,
and each connection has one request in a turn of the event loop.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final

import httptools
from falcon import uri
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from plantstore.api.answer import NO_SNIFF, NO_STORE, AnswerCycle
from plantstore.api.errors import RETRY_AFTER_SECONDS, STATUS, render_error
from plantstore.api.framing import Framing, RequestLine, bad_request
from plantstore.errors import ErrorCode, RequestError

# Fields in a head, and in a trailer section. Each takes some 130 bytes beside its text.
FIELDS_MAX: Final = 100

# How much of a chunked body is parsed in one turn of the event loop. Each chunk costs half a
# microsecond and may be six bytes long, so this bounds a turn to a millisecond.
CHUNKED_TURN_BYTES: Final = 8 * 1024

# A request may arrive in so many small pieces. After each further one the socket is not read
# for a while, in which the system gathers what arrives: a piece costs six microseconds here.
SMALL_PIECES_MAX: Final = 16
SMALL_PIECE_BYTES: Final = 512
GATHERING_SECONDS: Final = 0.001

# An answer of more than this many bytes is written at once, and the next request waits until
# the client has taken it. It bounds what many small answers hold that nobody takes.
_UNSENT_BYTES_HIGH: Final = 16 * 1024


class _Flow(FlowControl):
    """uvicorn's flow control, which does not resume reading while this is held."""

    is_held = False

    def resume_reading(self) -> None:
        if self.read_paused and not self.is_held:
            super().resume_reading()


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with these differences.

    - Requests are parsed one after the other, each when the one before it is answered.
    - What is not HTTP/1.0 or 1.1 gets an Error record, and more of it is noticed, by
      `plantstore.api.framing`.
    - Trailer fields are dropped, not taken for header fields (RFC 9110 §6.5.1).
    - An offer to upgrade the connection is ignored, as a server may (RFC 9110 §7.8):
      httptools would drop the body of the request that makes it, and every Java
      HttpClient makes it with its first.
    - No timer is armed after an answer. uvicorn's would outlive a connection that is reset.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(*args, **kwargs)
        self._framing = Framing()
        self._unparsed = b""
        self._small_pieces = 0
        self._is_gathering = False
        self._flow: _Flow

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (uvicorn's)
        """Begin a connection."""
        super().connection_made(transport)
        self.flow = self._flow = _Flow(transport)
        transport.set_write_buffer_limits(high=_UNSENT_BYTES_HIGH)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was not parsed."""
        self._unparsed = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, up to the end of a request."""
        self._unparsed = self._unparsed + data if self._unparsed else data
        self._parse()
        if len(data) < SMALL_PIECE_BYTES and not self._framing.is_between_requests():
            self._small_pieces += 1
            if self._small_pieces > SMALL_PIECES_MAX:
                self._gather()

    def _gather(self) -> None:
        self._is_gathering = self._flow.is_held = True
        self._flow.pause_reading()
        self.loop.call_later(GATHERING_SECONDS, self._end_gathering)

    def _end_gathering(self) -> None:
        self._is_gathering = False
        self._go_on()

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self._parse()

    def _parse(self) -> None:
        data, framing = self._unparsed, self._framing
        size, position, chunked_bytes = len(data), 0, 0
        while position < size and not (framing.is_in_head and self._must_wait()):
            limit = size
            if framing.is_chunked:
                if chunked_bytes >= CHUNKED_TURN_BYTES:
                    self.loop.call_soon(self._go_on)
                    break
                limit = min(size, position + CHUNKED_TURN_BYTES - chunked_bytes)
                chunked_bytes += limit - position
            end = framing.next_piece(data, position, limit)
            if not self._feed(data[position:end]):
                position = size
                break
            position = end
        self._unparsed = data[position:]
        if self._unparsed or self._flow.is_held:
            self._hold_reading()

    def _feed(self, piece: bytes) -> bool:
        """Parse a piece of a request. If it is not HTTP, refuse it and return False."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            return self._begin_again_without_upgrade()
        except httptools.HttpParserError as error:
            ours = error.__context__  # what a callback of the parser raised
            self.refuse(
                ours
                if isinstance(ours, RequestError)
                else bad_request("The request is not HTTP/1.1")
            )
            return False
        return True

    def _must_wait(self) -> bool:
        """Tell whether an answer must be given, or taken, before more is parsed."""
        request: RequestResponseCycle | None = self.cycle
        return (
            (request is not None and not request.more_body and not request.response_complete)
            or self._flow.write_paused
            or self.transport.is_closing()
        )

    def _hold_reading(self) -> None:
        flow = self._flow
        if self._unparsed:
            flow.is_held = True
            flow.pause_reading()
        elif flow.is_held:
            flow.is_held = False
            request: RequestResponseCycle | None = self.cycle
            if request is None or len(request.body) <= HIGH_WATER_LIMIT:
                flow.resume_reading()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header field, or a trailer field."""
        if len(self.headers) >= FIELDS_MAX:
            message = f"The head must have no more than {FIELDS_MAX} fields"
            raise RequestError(ErrorCode.HEAD_TOO_LARGE, message)
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Start the request, unless it offers an upgrade and is about to begin again."""
        request_line = self._framing.begin_body(self.headers)
        if not self.parser.should_upgrade():
            self._start(request_line)
            self.headers = []  # what comes now are trailer fields

    def _start(self, request_line: RequestLine) -> None:
        """Start the request, as uvicorn does, but for what the request line told already."""
        scope: Any = self.scope
        path = request_line.path.decode()
        scope["method"] = request_line.method.decode()
        scope["http_version"] = request_line.version
        scope["raw_path"] = request_line.path
        scope["path"] = uri.decode(path, unquote_plus=False) if "%" in path else path
        scope["query_string"] = request_line.query
        self.cycle = AnswerCycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.expect_100_continue,
            keep_alive=request_line.version == "1.1" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, which may be a chunk of a single byte."""
        self._framing.head_bytes = 0
        request = self.cycle
        if request.response_complete:
            return
        if not request.body:  # or it was told already
            request.message_event.set()
        request.body += body
        if len(request.body) > HIGH_WATER_LIMIT:
            self._flow.pause_reading()

    def on_message_complete(self) -> None:
        """End the request, unless it offers an upgrade and is about to begin again."""
        if not self.parser.should_upgrade():
            self._framing.end_request()
            self._small_pieces = 0
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what arrived behind the request, in the next turn of the event loop."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self._unparsed:
            self.loop.call_soon(self._go_on)
        else:
            self._flow.resume_reading()

    def resume_writing(self) -> None:
        """Go on with what arrived before the client took its answer."""
        super().resume_writing()
        if self._unparsed:
            self.loop.call_soon(self._go_on)

    def refuse(self, error: RequestError) -> None:
        """Answer what did not become a request, and close the connection.

        A request that is whole gets its own answer first, and nothing is answered behind it:
        the client would take this for the answer to that one.
        """
        if self._is_an_answer_due():
            self.cycle.keep_alive = False
            return
        if not self._framing.is_in_head and self.cycle.response_complete:
            self.transport.close()  # the body of a request that has its answer
            return
        status = STATUS[error.code]
        body = render_error(error.code, error.message)
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            NO_SNIFF,
            NO_STORE,
            (b"connection", b"close"),
        ]
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            headers.append((b"retry-after", b"%d" % RETRY_AFTER_SECONDS))
        lines = [b"%s: %s\r\n" % header for header in headers]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self.transport.close()

    def _is_an_answer_due(self) -> bool:
        """Tell whether what is sent now would be taken for the answer to another request."""
        request: RequestResponseCycle | None = self.cycle
        if request is None or request.response_complete:
            return False
        return request.response_started or not request.more_body

    def _begin_again_without_upgrade(self) -> bool:
        """Give the head to a new parser, but for the field that offers the upgrade."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return self._feed(self._framing.head_without(b"upgrade", self.headers))
