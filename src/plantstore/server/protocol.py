"""uvicorn's HTTP/1.1 protocol on httptools, with fixes for cases where it deviates from the RFCs.

Theory of operation
-------------------
The parser gets one request at a time (`plantstore.server.framing` splits the data). Data behind
this request stays unparsed, and the socket is not read, until the request is answered and the
client has read the response. So pipelined requests cost only the memory for their bytes, and a
turn of the event loop handles at most one request of each connection.
"""

from typing import Any, Final

import httptools

from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import RequestRefused
from plantstore.server.framing import bad_request
from plantstore.server.interface import ANSWERED, Fields
from plantstore.server.uvicorn_parts import UvicornProtocol

# Maximum number of fields in a head, and in a trailer section. Each takes some 130 bytes
# besides its text.
FIELDS_MAX: Final = 100

# Bytes of a chunked body that are parsed in one turn of the event loop. A chunk takes half a
# microsecond and may be only six bytes long, so the parsing takes a millisecond at most.
CHUNKED_TURN_BYTES: Final = 8 * 1024

# A request may arrive in this many small pieces. After each further piece, the socket is not
# read for GATHERING_SECONDS, so that the kernel collects the data: a piece takes six
# microseconds here.
SMALL_PIECES_MAX: Final = 16
SMALL_PIECE_BYTES: Final = 512
GATHERING_SECONDS: Final = 0.001


class HttpProtocol(UvicornProtocol):
    """uvicorn's protocol, with these differences.

    - Requests are parsed one after the other, each when the previous one is answered.
    - Data that is not HTTP/1.0 or 1.1 gets an Error record. `plantstore.server.framing`
      finds violations that uvicorn accepts.
    - Trailer fields are discarded. They are not treated as header fields (RFC 9110 §6.5.1).
    - An offer to upgrade the connection is ignored, as RFC 9110 §7.8 allows. httptools
      would discard the body of a request with such an offer, and every Java HttpClient
      sends one with its first request.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 (uvicorn's)
        super().__init__(*args, **kwargs)
        self._unparsed = b""
        self._small_pieces = 0
        self._is_gathering = False

    def connection_lost(self, exc: Exception | None) -> None:
        """Discard the unparsed data."""
        self._unparsed = b""
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the data up to the end of a request."""
        self._unparsed = self._unparsed + data if self._unparsed else data
        self._parse()
        if len(data) < SMALL_PIECE_BYTES and not self.framing.is_between_requests():
            self._small_pieces += 1
            if self._small_pieces > SMALL_PIECES_MAX:
                self._gather()

    def _gather(self) -> None:
        self._is_gathering = self.flow.is_held = True
        self.flow.pause_reading()
        self.loop.call_later(GATHERING_SECONDS, self._end_gathering)

    def _end_gathering(self) -> None:
        self._is_gathering = False
        self._go_on()

    def _go_on(self) -> None:
        if not self.transport.is_closing():
            self._parse()

    def _parse(self) -> None:
        data, framing = self._unparsed, self.framing
        size, position, chunked_bytes = len(data), 0, 0
        while position < size and not (framing.is_in_head and self.must_wait()):
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
        if self._unparsed or self.flow.is_held:
            self._hold_reading()

    def _feed(self, piece: bytes) -> bool:
        """Parse a piece of a request. If it is not HTTP, refuse it and return False."""
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            return self._begin_again_without_upgrade()
        except httptools.HttpParserError as error:
            ours = error.__context__  # the error that a callback of the parser raised
            self.refuse(
                ours
                if isinstance(ours, RequestError)
                else bad_request("The request is not HTTP/1.1")
            )
            return False
        return True

    def _hold_reading(self) -> None:
        flow = self.flow
        if self._unparsed:
            flow.is_held = True
            flow.pause_reading()
        elif flow.is_held:
            flow.is_held = False
            if not self.is_body_held():
                flow.resume_reading()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header field, or a trailer field, without white space around the value.

        The parser leaves white space behind the value (RFC 9112 §5.1).
        """
        fields = self.headers
        if len(fields) >= FIELDS_MAX:
            message = f"The head must have no more than {FIELDS_MAX} fields"
            raise RequestError(ErrorCode.HEAD_TOO_LARGE, message)
        fields.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """Start the request, unless it offers an upgrade and will be parsed again."""
        request_line = self.framing.begin_body(self.headers)
        if not self.parser.should_upgrade():
            self.start_request(request_line)

    def on_message_complete(self) -> None:
        """End the request, unless it offers an upgrade and will be parsed again."""
        if not self.parser.should_upgrade():
            self.framing.end_request()
            self._small_pieces = 0
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Parse the data behind the request, in the next turn of the event loop."""
        self.is_answered = True
        if self.transport.is_closing():
            return
        if self._unparsed:
            self.loop.call_soon(self._go_on)
        else:
            self.flow.resume_reading()

    def resume_writing(self) -> None:
        """Parse the data that arrived before the client had read its response."""
        super().resume_writing()
        if self._unparsed:
            self.loop.call_soon(self._go_on)

    def refuse(self, error: RequestError) -> None:
        """Respond with an error to data that is not a valid request, and close the connection.

        If an earlier request still waits for its response, only that response is sent: the
        client would take the error for the response to that request. If the application reads
        the data as a stream, it responds: it knows what it did with the beginning.
        """
        if self.is_streamed():
            self.cycle.fail_body(error)
            return
        if self.is_answer_due():
            self.close_after_answer()
            return
        if self.is_answered and not self.framing.is_in_head:
            self.transport.close()  # the data is the body of a request that is answered
            return
        self.connection_config.observe(RequestRefused(error.code))
        scope = self.request_scope
        fields: Fields = self.headers or () if scope is None else scope["headers"]
        answer = self.connection_config.render_error(error, fields)
        if scope is not None:
            scope[ANSWERED] = answer.status
        self.write_error(answer)

    def _begin_again_without_upgrade(self) -> bool:
        """Give the head to a new parser, without the field that offers the upgrade."""
        self.restart_parser()
        return self._feed(self.framing.head_without(b"upgrade", self.headers))
