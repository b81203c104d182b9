"""The only module that uses private parts of uvicorn.

pyproject.toml pins the minor version of uvicorn, and `tests/unit/test_uvicorn_parts.py` fails
when a part that is used here has changed.
"""

import asyncio
import select
from typing import Any, Final

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from plantstore.errors import InternalError, RequestError
from plantstore.server.framing import Framing, RequestLine
from plantstore.server.interface import (
    ABORT,
    CONNECTION_CONFIG,
    FAILED,
    IS_CLIENT_GONE,
    STREAMED,
    ConnectionConfig,
    ErrorAnswer,
    Fields,
)

# Fields of each response. Responses are for the owner of the token, so caches must not store
# them (RFC 9111 §5.2.2.5), unless a response has its own Cache-Control. Browsers must not guess
# a content type other than the declared one.
NO_STORE: Final = (b"cache-control", b"no-store")
NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")

_CLOSE: Final = (b"connection", b"close")

# While more than this many bytes are unread, the next request of the connection waits. A larger
# response is still written at once. This limits the memory for many small unread responses.
_UNSENT_BYTES_HIGH: Final = 16 * 1024

# A larger body is not copied to write it together with its head.
_JOINED_BYTES_MAX: Final = 16 * 1024


class _Flow(FlowControl):
    """uvicorn's flow control, which does not resume reading while `is_held` is true."""

    is_held = False

    def resume_reading(self) -> None:
        if self.read_paused and not self.is_held:
            super().resume_reading()


class _Cycle(RequestResponseCycle):
    """uvicorn's request cycle, which can abort a response, and writes heads in another way.

    uvicorn searches each name and each value for forbidden characters. This class counts the
    line ends of the whole head instead. This takes less time than uvicorn's search takes for
    the two added fields alone. The head is written together with a small body, since each write
    takes a system call.
    """

    _unsent_head = b""

    def fail_body(self, error: RequestError) -> None:
        """Raise an error in the application instead of the rest of the body."""
        self.scope[FAILED] = error  # type: ignore[typeddict-unknown-key]
        self.keep_alive = False
        self.message_event.set()

    async def send(self, message: Any) -> None:  # noqa: ANN401 (uvicorn's)
        """Write a part of the response, as uvicorn does.

        Raises:
            ConnectionResetError: the client disconnected before the end of a response of
                several parts.

        """
        if message is ABORT:
            self.disconnected = True
            self.transport.abort()
            return
        if self.disconnected and message.get("more_body"):
            raise ConnectionResetError("The client disconnected")
        if not self.response_started:
            if self.flow.write_paused and not self.disconnected:
                await self.flow.drain()
            if self.disconnected or self._begin_response(message):
                return
        elif self._unsent_head:
            head, self._unsent_head = self._unsent_head, b""
            body = message.get("body", b"")
            is_whole = len(body) == self.expected_content_length and not message.get("more_body")
            is_sent = self.scope["method"] != "HEAD"
            if is_sent and is_whole and len(body) <= _JOINED_BYTES_MAX:
                self._end_response(head + body)
                return
            self.transport.write(head)
        await super().send(message)

    def _begin_response(self, message: Any) -> bool:  # noqa: ANN401 (uvicorn's)
        """Add our fields to a head. Render it and return True if it has a Content-Length.

        uvicorn writes the other heads: their responses have no body, or are chunked.
        """
        fields = [*self.default_headers, *message["headers"], NO_SNIFF]
        by_name = dict(fields)
        if b"cache-control" not in by_name:
            fields.append(NO_STORE)
        length = by_name.get(b"content-length")
        if length is None:
            message["headers"] = fields[len(self.default_headers) :]
            return False
        if not self.keep_alive:
            fields.append(_CLOSE)
        self._unsent_head = _render_head(message["status"], fields)
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = int(length)
        self.chunked_encoding = False
        return True

    def _end_response(self, head_and_body: bytes) -> None:
        """Write a whole response, and end the request as uvicorn's `send` does."""
        if not self.disconnected:
            self.transport.write(head_and_body)
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()

    async def send_500_response(self) -> None:
        """Respond for an application that raised an exception before it responded."""
        connection_config: ConnectionConfig = self.scope["state"][CONNECTION_CONFIG]
        answer = connection_config.render_error(InternalError(), list(self.scope["headers"]))
        self.keep_alive = False
        start = {"type": "http.response.start", "status": answer.status}
        await self.send(start | {"headers": answer.fields()})
        await self.send({"type": "http.response.body", "body": answer.body})


class UvicornProtocol(HttpToolsProtocol):
    """uvicorn's protocol for httptools, with another way to start requests.

    No timer is started after a response: uvicorn's timer would outlive a connection that is
    reset.

    Attributes:
        framing: finds the end of a request.
        is_answered: whether the last request is answered; true before the first request.

    """

    cycle: _Cycle

    # httptools skips a callback that is None. `Framing` parses the request line.
    on_url = None  # type: ignore[assignment]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.connection_config: ConnectionConfig = app_state[CONNECTION_CONFIG]
        self.framing = Framing()
        self.is_answered = True
        self.flow: _Flow

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 (uvicorn's)
        """Begin a connection, with our flow control."""
        super().connection_made(transport)
        self.flow = _Flow(transport)
        transport.set_write_buffer_limits(high=_UNSENT_BYTES_HIGH)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the connection, without a reference cycle of the connection and its request."""
        super().connection_lost(exc)
        if self.cycle is not None:
            self.cycle.scope[IS_CLIENT_GONE] = _always  # type: ignore[typeddict-unknown-key]

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.headers = []

    def start_request(self, request_line: RequestLine) -> None:
        """Start the request whose head is in `headers`."""
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": request_line.version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            "state": self.app_state.copy(),
            "method": request_line.method,
            "raw_path": request_line.raw_path,
            "path": request_line.path,
            "query_string": request_line.query,
            IS_CLIENT_GONE: self.is_client_gone,
        }
        self.headers = []  # for the trailer fields
        self.is_answered = False
        self.cycle = _Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=self.framing.expects_continue,
            keep_alive=request_line.version == "1.1" and self.parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        self._start_asgi_task(self.cycle, self.app)

    def restart_parser(self) -> None:
        """Continue with a new parser."""
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body, which may be a chunk of a single byte."""
        self.framing.head_bytes = 0
        request = self.cycle
        if request.response_complete:
            return
        if not request.body:  # otherwise the event is set already
            request.message_event.set()
        request.body += body
        if len(request.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """End the request."""
        request = self.cycle
        if not request.response_complete:
            request.more_body = False
            request.message_event.set()

    def is_streamed(self) -> bool:
        """Tell whether the application reads the body of the request as a stream."""
        request: RequestResponseCycle | None = self.cycle
        return request is not None and not self.is_answered and STREAMED in request.scope

    def is_client_gone(self) -> bool:
        """Return whether the client has closed its side of the connection; if so, close ours.

        While the socket is not read, the event loop does not notice it.
        """
        if not self.transport.is_closing():
            poll = select.poll()
            poll.register(self.transport.get_extra_info("socket").fileno(), select.POLLRDHUP)
            if not poll.poll(0):
                return False
            self.transport.abort()
        return True

    def is_body_held(self) -> bool:
        """Return whether too much of a body waits for the application to read it."""
        return not self.is_answered and len(self.cycle.body) > HIGH_WATER_LIMIT

    def may_send(self) -> bool:
        """Return whether the client can send: the socket is read, and no 100 is awaited."""
        request: RequestResponseCycle | None = self.cycle
        return not self.flow.read_paused and not (
            request is not None and request.waiting_for_100_continue
        )

    def must_wait(self) -> bool:
        """Return whether a response must be sent, or read, before more data is parsed."""
        return (
            (not self.is_answered and not self.cycle.more_body)
            or self.flow.write_paused
            or self.transport.is_closing()
        )

    def is_answer_due(self) -> bool:
        """Return whether bytes sent now would be read as the response to an earlier request."""
        return not self.is_answered and (self.cycle.response_started or not self.cycle.more_body)

    def close_after_answer(self) -> None:
        """Close the connection after the response to the current request."""
        self.cycle.keep_alive = False

    @property
    def request_scope(self) -> dict[str, Any] | None:
        """The scope of the current request; None if it is answered."""
        return None if self.is_answered else self.cycle.scope  # type: ignore[return-value]

    def write_error(self, answer: ErrorAnswer) -> None:
        """Send the response to data that is not a valid request, and close the connection."""
        default: Fields = self.server_state.default_headers
        fields = [*default, *answer.fields(), NO_SNIFF, NO_STORE, _CLOSE]
        self.transport.write(_render_head(answer.status, fields) + answer.body)
        self.transport.close()


def _always() -> bool:
    return True


def _render_head(status: int, fields: Fields) -> bytes:
    """Render the head of a response.

    Raises:
        RuntimeError: a field has a line end in it.

    """
    head = b"\r\n".join(map(b": ".join, fields))
    if not head.count(b"\r") == head.count(b"\n") == len(fields) - 1:
        raise RuntimeError("A field of the answer has a line end in it")
    return b"%b%b\r\n\r\n" % (STATUS_LINE[status], head)
