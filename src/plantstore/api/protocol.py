"""HTTP/1.1 as uvicorn speaks it, on httptools, mended where it falls short of the standards."""

from http import HTTPStatus
from typing import Final

import httptools
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from plantstore.api.errors import RETRY_AFTER_SECONDS, STATUS, render_error
from plantstore.errors import ErrorCode, RequestError

_VERSIONS: Final = ("1.0", "1.1")


class HttpProtocol(HttpToolsProtocol):
    """Uvicorn's protocol, with these differences.

    - What is no HTTP/1.0 or 1.1 is answered with an Error record, and more of it is
      noticed: a target that is not ASCII (RFC 3986 §2), a Host field that is missing
      or there twice (RFC 9112 §3.2), CONNECT, which only a proxy serves.
    - Trailer fields are dropped, not taken for header fields (RFC 9110 §6.5.1).
    - An offer to upgrade the connection is ignored, as a server may (RFC 9110 §7.8):
      httptools would drop the body of the request that makes it, and every Java
      HttpClient makes it with its first.
    """

    def data_received(self, data: bytes) -> None:
        """Parse what came; refuse it and hang up if it is no HTTP."""
        self._unset_keepalive_if_required()
        rest = memoryview(data)
        try:
            while True:
                try:
                    self.parser.feed_data(rest)
                except httptools.HttpParserUpgrade as upgrade:
                    rest = rest[upgrade.args[0] :]
                    self._begin_again_without_upgrade()
                else:
                    return
        except httptools.HttpParserError as error:
            ours = error.__context__  # what a call-back of the parser raised
            self.refuse(
                ours
                if isinstance(ours, RequestError)
                else RequestError(ErrorCode.BAD_REQUEST, "The request is not HTTP/1.1")
            )

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request target."""
        if not url.isascii():
            raise _bad_request("The request target is not ASCII")
        super().on_url(url)

    def on_headers_complete(self) -> None:
        """Start the request, unless it offers an upgrade and is about to begin again."""
        version = self.parser.get_http_version()
        hosts = [name for name, _ in self.headers].count(b"host")
        if version not in _VERSIONS:
            raise _bad_request("The request is not HTTP/1.1")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            raise _bad_request("The request must have one Host field")
        if self.parser.get_method() == b"CONNECT":
            raise _bad_request("Only a proxy serves CONNECT")
        if not self.parser.should_upgrade():
            super().on_headers_complete()
            self.headers = []  # what comes now are trailer fields

    def on_message_complete(self) -> None:
        """End the request, unless it offers an upgrade and is about to begin again."""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def refuse(self, error: RequestError) -> None:
        """Answer what did not become a request, and hang up.

        While a request that came before it waits for its answer, only hang up: the
        client would take this for the answer to that one.
        """
        if self._is_an_answer_due():
            self.transport.close()
            return
        status = STATUS[error.code]
        body = render_error(error.code, error.message)
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            headers.append((b"retry-after", b"%d" % RETRY_AFTER_SECONDS))
        lines = [b"%s: %s\r\n" % header for header in headers]
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self.transport.close()

    def _is_an_answer_due(self) -> bool:
        """Tell whether what is sent now would be taken for the answer to another request."""
        request: RequestResponseCycle | None = self.cycle
        if self.pipeline:
            return True
        if request is None or request.response_complete:
            return False
        return request.response_started or not request.more_body

    def _begin_again_without_upgrade(self) -> None:
        """Give the head to a new parser, but for the field that offers the upgrade."""
        start = b"%s %s HTTP/%s" % (
            self.parser.get_method(),
            self.url,
            self.parser.get_http_version().encode(),
        )
        fields = [b"%s: %s" % field for field in self.headers if field[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self.parser.feed_data(b"\r\n".join([start, *fields, b"\r\n"]))


def _bad_request(message: str) -> RequestError:
    return RequestError(ErrorCode.BAD_REQUEST, message)
