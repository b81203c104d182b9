"""Finds the end of each request, and checks its head. Pure: no I/O, no clock.

Theory of operation
-------------------
The parser does not report where a request ends. So the data is split before the parser gets
it. A head ends with an empty line, and so does a chunked body (RFC 9112 §2.1, §7.1). A piece
that ends at the next empty line, or before it, therefore belongs to a single request. A body
of a known length is split by its length.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import httptools
import msgspec

from plantstore.errors import ErrorCode, RequestError

_VERSIONS: Final = {b"HTTP/1.1\r\n": "1.1", b"HTTP/1.0\r\n": "1.0"}
_EMPTY_LINE: Final = b"\r\n\r\n"

# uri-host [":" port], RFC 9112 §3.2 and RFC 3986 §3.2.2: an address in brackets, or a name, in
# which each percent sign must begin an encoded octet.
_HOST: Final = re.compile(
    rb"(?:\[[0-9A-Za-z:.~!$&'()*+,;=_-]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?"
)

# The fields that a request may have only once, with the message for a second one. A proxy or a
# filter in front might use the other one.
_SINGLETONS: Final = {
    b"host": "The request must have one Host field",
    b"transfer-encoding": "The request must have no more than one Transfer-Encoding",
    b"content-length": "The request must have no more than one Content-Length",
    b"content-type": "The request must have no more than one Content-Type",
    b"authorization": "The request must have no more than one Authorization",
}

# A percent sign that does not begin an encoded octet.
_BARE_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class RequestLine(msgspec.Struct, frozen=True, gc=False):
    """The first line of a head.

    Attributes:
        method: as it was sent.
        raw_path: as it was sent.
        path: decoded.
        query: as it was sent.
        version: 1.0 or 1.1.

    """

    method: str
    raw_path: bytes
    path: str
    query: bytes
    version: str


class Framing:
    """Splits the data of one connection into pieces. No piece spans two requests.

    Attributes:
        is_in_head: whether the next piece belongs to a head.
        is_chunked: whether the next piece belongs to a chunked body.
        expects_continue: whether the client sends the body of this request only after a 100
            (RFC 9110 §10.1.1).
        head_bytes: bytes so far of the current head, of the trailer fields, or of the framing
            between two chunks. The receiver of a piece of a body sets it to 0.

    """

    __slots__ = (
        "_body_left",
        "_line_end",
        "_request_line",
        "expects_continue",
        "head_bytes",
        "is_chunked",
        "is_in_head",
    )

    def __init__(self) -> None:
        self.is_in_head = True
        self.is_chunked = False
        self.expects_continue = False
        self.head_bytes = 0
        self._request_line = b""
        self._body_left = 0
        # The last bytes of the previous piece, in which an empty line may have begun.
        self._line_end = b""

    def next_piece(self, data: bytes, start: int, limit: int) -> int:
        """Return the end of the piece that begins at `start`; it is at most `limit`."""
        if self._body_left:
            end = min(limit, start + self._body_left)
            self._body_left -= end - start
            return end
        found = -1 if self._line_end else data.find(_EMPTY_LINE, start, limit)
        end = found + 4 if found >= 0 else self._search(data, start, limit)
        if self.is_in_head and not self._request_line.endswith(b"\n"):
            self._keep_request_line(data, start, end)
        self.head_bytes += end - start
        return end

    def begin_body(self, fields: Sequence[tuple[bytes, bytes]]) -> RequestLine:
        """Check the head of a request, and continue with the body.

        Args:
            fields: names and values of the head's fields; the names are in lower case.

        Returns:
            The request line.

        Raises:
            RequestError: BAD_REQUEST or NOT_IMPLEMENTED, by RFC 9112.

        """
        request_line = _parse_request_line(self._request_line)
        is_old = request_line.version == "1.0"
        self.expects_continue = False
        found: dict[bytes, bytes] = {}
        for name, value in fields:
            if name in _SINGLETONS:
                if name in found:
                    raise bad_request(_SINGLETONS[name])
                found[name] = value
            elif name == b"expect":
                self.expects_continue |= value.lower() == b"100-continue"
        self._body_left = int(found.get(b"content-length", 0))  # the parser accepts only digits
        coding = found.get(b"transfer-encoding")
        _check_host(found.get(b"host"), is_old=is_old)
        if coding is not None:
            _check_transfer_coding(coding, is_old=is_old)
        self.is_chunked = coding is not None
        self.is_in_head = False
        self.head_bytes = 0
        return request_line

    def head_without(self, name: bytes, fields: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the head as it arrived, without the fields of this name."""
        lines = [b"%b: %b\r\n" % field for field in fields if field[0] != name]
        return b"".join([self._request_line, *lines, b"\r\n"])

    def is_between_requests(self) -> bool:
        """Return whether no byte of the next request has arrived."""
        return self.is_in_head and not self.head_bytes

    def end_request(self) -> None:
        """Continue with the next request."""
        self.is_in_head = True
        self.is_chunked = False
        self.head_bytes = 0
        self._request_line = b""

    def _search(self, data: bytes, start: int, limit: int) -> int:
        """Return where the next empty line ends. It may have begun in the previous piece."""
        before = self._line_end
        found = (before + data[start : min(start + 3, limit)]).find(_EMPTY_LINE)
        if found >= 0:
            end = start + found + len(_EMPTY_LINE) - len(before)
        else:
            found = data.find(_EMPTY_LINE, start, limit)
            end = found + len(_EMPTY_LINE)
        if found < 0:
            self._line_end = (before + data[max(start, limit - 3) : limit])[-3:]
            return limit
        self._line_end = b""
        return end

    def _keep_request_line(self, data: bytes, start: int, end: int) -> None:
        # Empty lines before it are ignored (RFC 9112 §2.2).
        if not self._request_line:
            while start < end and data[start] in b"\r\n":
                start += 1
        found = data.find(b"\n", start, end)
        self._request_line += data[start : found + 1 if found >= 0 else end]


def bad_request(message: str) -> RequestError:
    """Return the error for a request that violates HTTP."""
    return RequestError(ErrorCode.BAD_REQUEST, message)


def decode_path(path: bytes) -> str:
    """Decode the percent-encoded octets of an ASCII path as UTF-8 (RFC 3986 §2.1).

    Invalid UTF-8 becomes U+FFFD, and a percent sign that encodes nothing stays. The standard
    library takes a hundred times as long: milliseconds for a path of 32 KiB.
    """
    escaped = _BARE_PERCENT.sub(b"%25", path).replace(b"\\", b"%5C").replace(b"%", b"\\x")
    return escaped.decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")


@lru_cache(maxsize=16)
def _parse_request_line(line: bytes) -> RequestLine:
    """Parse three words with one space between them, and an ASCII target (RFC 9112 §3)."""
    words = line.split(b" ")
    if len(words) != 3:  # noqa: PLR2004 (the parser accepts more spaces)
        raise bad_request("The request line must be three words with one space between them")
    method, target, version = words
    if version not in _VERSIONS:
        raise bad_request("The request is not HTTP/1.1")
    if not target.isascii() or b"#" in target:  # RFC 3986 §2, RFC 9112 §3.2
        raise bad_request("The request target must be ASCII, and have no fragment")
    if method == b"CONNECT":
        raise bad_request("Only a proxy serves CONNECT")
    if target.startswith(b"/"):
        path, _, query = target.partition(b"?")
    else:  # an absolute form (§3.2.2), or a name that the parser accepts as one
        url = httptools.parse_url(target)
        path, query = url.path or b"/", url.query or b""
    decoded = decode_path(path) if b"%" in path else path.decode()
    return RequestLine(method.decode(), path, decoded, query, _VERSIONS[version])


def _check_host(host: bytes | None, *, is_old: bool) -> None:
    """Check the Host field: a host and an optional port. HTTP/1.0 needs none (RFC 9112 §3.2)."""
    if host is None:
        if not is_old:
            raise bad_request("The request must have one Host field")
    elif not _is_host(host):
        raise bad_request("The Host field must be a host with an optional port")


@lru_cache(maxsize=64)
def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value) is not None and not _BARE_PERCENT.search(value)


def _check_transfer_coding(coding: bytes, *, is_old: bool) -> None:
    """Accept only chunked (RFC 9112 §6.1)."""
    if is_old:
        raise bad_request("A request of HTTP/1.0 must have no Transfer-Encoding")
    if coding.lower() != b"chunked":
        raise RequestError(ErrorCode.NOT_IMPLEMENTED, "The Transfer-Encoding must be chunked")
