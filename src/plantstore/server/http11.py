"""HTTP/1.1: requests from bytes to events, and responses to bytes. Pure: no I/O, no clock.

Theory of operation
-------------------
`RequestReader` takes the bytes of a connection, as they arrive, and returns events:

    WholeRequest, for a request that has arrived together with its head
    Head, then any number of pieces of the body (bytes), then END, for any other one
    NEED_DATA when the bytes so far hold no further event
    a RequestError, raised, for data that is not a valid request

The caller asks for one event at a time. So it decides when the next request is read, and bytes
that it has not asked for cost only their memory.

A head ends with an empty line (RFC 9112 §2.1). Most clients send the same head again and again, so
a complete head is parsed by a function whose results are cached. A body of a known length is split
off by its length. A chunked body ends with an empty line, too (§7.1), so no
part that the parser of the chunks gets reaches beyond an empty line, into the next request.

llhttp, through httptools, is the parser. The rules that it does not enforce are checked here.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import unquote

import httptools
import msgspec

from plantstore.errors import ErrorCode, RequestError
from plantstore.messages import Fields

# Size of the request line and the header fields. Browsers send less than 1 KiB. The trailer
# fields, and the framing between two pieces of a chunked body, have the same limit.
HEAD_BYTES_MAX: Final = 32 * 1024

# Maximum number of fields in a head, and in a trailer section. Each takes some 130 bytes
# besides its text.
FIELDS_MAX: Final = 100

# Size of the path, and of each field that a layer of the service reads, all its lines together. To
# parse a list of a thousand elements may take a hundred times as long as a create.
VALUE_BYTES_MAX: Final = 1024
READ_FIELDS: Final = frozenset(
    b"accept accept-encoding access-control-request-headers access-control-request-method"
    b" authorization change-set connection content-encoding content-type expect host if-match"
    b" if-none-match last-event-id origin prefer traceparent x-forwarded-for x-forwarded-proto"
    b" x-request-id".split()
)

# Bytes of a chunked body that one event may hold. A chunk takes half a microsecond and may be only
# six bytes long, so an event takes a millisecond at most.
CHUNKED_PIECE_BYTES: Final = 8 * 1024

# Heads that are cached, and the size of the largest of them.
_CACHED_HEADS: Final = 128
_CACHED_HEAD_BYTES_MAX: Final = 1024

_EMPTY_LINE: Final = b"\r\n\r\n"

# An incomplete head is no HTTP if its first byte is not printable, as that of TLS, or if a line
# does not end with CR and LF. Without this check, the client would wait until its request is late.
_NO_HTTP: Final = re.compile(rb"\A[^!-~]|[^\r]\n")

_VERSIONS: Final = {b"HTTP/1.1": "1.1", b"HTTP/1.0": "1.0"}

# A parser of a chunked body has to begin with a head.
_CHUNKED_HEAD: Final = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"

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


class Head(msgspec.Struct, frozen=True, gc=False):
    """The head of a request.

    Attributes:
        method: as it was sent.
        path: decoded. Invalid UTF-8 is U+FFFD, and a percent sign that encodes nothing stays.
        query: as it was sent.
        fields: by their names, as `plantstore.messages.Fields` has them.
        version: 1.0 or 1.1.
        raw_path: as it was sent.
        body_bytes: the length of the body; None if it is chunked.
        expects_continue: whether the client sends the body only after a 100 (RFC 9110 §10.1.1).
        keeps_alive: whether the connection may be used for another request (RFC 9112 §9.3).

    """

    method: str
    path: str
    query: str
    fields: Fields
    version: str
    raw_path: str
    body_bytes: int | None
    expects_continue: bool
    keeps_alive: bool


class WholeRequest(msgspec.Struct, frozen=True, gc=False):
    """A request whose last byte has arrived together with its head."""

    head: Head
    body: bytes


class HeadRefusedError(RequestError):
    """A head is not valid. `fields` has the fields that were read."""

    def __init__(self, error: RequestError, fields: Fields) -> None:
        super().__init__(error.code, error.message)
        self.fields = fields


class Signal(Enum):
    """The events that hold no data."""

    NEED_DATA = "need data"
    END = "end"  # of a request


NEED_DATA, END = Signal

Event: TypeAlias = WholeRequest | Head | bytes | Signal


class RequestReader:
    """Reads the requests of one connection, one after the other.

    Attributes:
        unread: the bytes that no event has used.

    """

    def __init__(self) -> None:
        self.unread = b""
        self._is_in_head = True
        self._seen_bytes = 0  # of an incomplete head
        self._body_left = 0
        # A chunked body, and its parser.
        self._chunks: tuple[_Chunks, httptools.HttpRequestParser] | None = None
        self._framing_bytes = 0  # since the last data of a chunked body

    @property
    def is_chunked(self) -> bool:
        """Whether the next event belongs to a chunked body."""
        return self._chunks is not None

    def receive_data(self, data: bytes) -> None:
        """Add bytes that have arrived."""
        self.unread = self.unread + data if self.unread else data

    def next_event(self) -> Event:
        """Return the next event.

        Raises:
            RequestError: BAD_REQUEST, NOT_IMPLEMENTED or HEAD_TOO_LARGE. The connection cannot
                be used for further requests.

        """
        if not self._is_in_head:
            return self._read_body()
        if self.unread[:1] in (b"\r", b"\n"):  # ignored before a request (RFC 9112 §2.2)
            rest = self.unread.lstrip(b"\r\n")
            self._count_framing(len(self.unread) - len(rest))
            self.unread = rest
        data = self.unread
        end = data.find(_EMPTY_LINE, max(0, self._seen_bytes - 3))
        if end < 0:
            self._check_beginning()
            return NEED_DATA
        end += len(_EMPTY_LINE)
        self._seen_bytes = self._framing_bytes = 0
        parse = parse_head if end > _CACHED_HEAD_BYTES_MAX else _parse_head_cached
        head = parse(data[:end])
        if head.body_bytes is None:
            chunks = _Chunks()
            self._chunks = chunks, _parser(chunks)
            self._chunks[1].feed_data(_CHUNKED_HEAD)
            chunks.fields.clear()
        elif (body_end := end + head.body_bytes) <= len(data):
            self.unread = data[body_end:]
            return WholeRequest(head, data[end:body_end])
        else:
            self._body_left = head.body_bytes
        self.unread = data[end:]
        self._is_in_head = False
        return head

    def _read_body(self) -> bytes | Signal:
        if self._chunks is not None:
            return self._read_chunks(*self._chunks)
        if not self._body_left:
            self._is_in_head = True
            return END
        if not self.unread:
            return NEED_DATA
        piece, self.unread = self.unread[: self._body_left], self.unread[self._body_left :]
        self._body_left -= len(piece)
        return piece

    def _check_beginning(self) -> None:
        """Refuse the beginning of a head if it is no HTTP, or too large already."""
        if _NO_HTTP.search(self.unread, max(0, self._seen_bytes - 1)):
            raise bad_request("The request is not HTTP/1.1")
        self._seen_bytes = len(self.unread)
        if self._seen_bytes > HEAD_BYTES_MAX:
            raise _head_too_large()

    def _read_chunks(
        self, chunks: "_Chunks", parser: httptools.HttpRequestParser
    ) -> bytes | Signal:
        data, position = self.unread[:CHUNKED_PIECE_BYTES], 0
        while not chunks.is_complete and (end := _end_of_part(data, position)) > position:
            _feed(parser, data[position:end])
            position = end
        self.unread = self.unread[position:]
        if piece := chunks.take():
            self._framing_bytes = 0
            return piece
        if chunks.is_complete:
            self._chunks, self._is_in_head, self._framing_bytes = None, True, 0
            return END
        self._count_framing(position)
        return b"" if position else NEED_DATA

    def _count_framing(self, size: int) -> None:
        self._framing_bytes += size
        if self._framing_bytes > HEAD_BYTES_MAX:
            raise _head_too_large()


class _Fields:
    """Collects the fields of a head, or of a trailer section."""

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.fields) >= FIELDS_MAX:
            message = f"The head must have no more than {FIELDS_MAX} fields"
            raise RequestError(ErrorCode.HEAD_TOO_LARGE, message)
        # The parser leaves white space behind the value (RFC 9112 §5.1).
        self.fields.append((name.lower(), value.rstrip(b" \t")))


class _Head(_Fields):
    """Checks a head when the parser has all of its fields."""

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self._head = head
        self.parsed: Head | None = None

    def on_headers_complete(self) -> None:
        if len(self._head) > HEAD_BYTES_MAX:
            raise _head_too_large()
        if len(self._head) > VALUE_BYTES_MAX:
            _check_sizes(self.fields)
        line = self._head[: self._head.find(b"\r\n")]
        self.parsed = _check_head(line, [each for each in self.fields if each[0] != b"upgrade"])


class _Chunks(_Fields):
    """A chunked body. Its trailer fields are discarded (RFC 9110 §6.5.1)."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self.is_complete = False

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        self.is_complete = True

    def take(self) -> bytes:
        """Return the data since the last call."""
        piece = b"".join(self._pieces)
        self._pieces.clear()
        return piece


def _parser(callbacks: _Fields) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(callbacks)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def _feed(parser: httptools.HttpRequestParser, data: bytes) -> None:
    try:
        parser.feed_data(data)
    except httptools.HttpParserError as error:
        ours = error.__context__  # the error that a callback of the parser raised
        if isinstance(ours, MemoryError):
            raise ours from None
        if isinstance(ours, RequestError):
            raise ours.again() from None
        raise bad_request("The request is not HTTP/1.1") from None


def _end_of_part(data: bytes, start: int) -> int:
    """Return where the next empty line ends; if there is none, where one may begin."""
    found = data.find(_EMPTY_LINE, start)
    if found >= 0:
        return found + len(_EMPTY_LINE)
    begun = next(size for size in (3, 2, 1, 0) if data.endswith(_EMPTY_LINE[:size]))
    return max(start, len(data) - begun)


def parse_head(head: bytes) -> Head:
    """Parse a complete head, from the request line to the empty line.

    An offer to upgrade the connection is ignored, as RFC 9110 §7.8 allows. Every Java HttpClient
    sends one with its first request.

    Raises:
        RequestError: BAD_REQUEST, NOT_IMPLEMENTED or HEAD_TOO_LARGE.

    """
    callbacks = _Head(head)
    try:
        with contextlib.suppress(httptools.HttpParserUpgrade):  # raised behind the head
            _feed(_parser(callbacks), head)
    except RequestError as error:
        raise HeadRefusedError(error, _by_name(callbacks.fields)) from None
    if callbacks.parsed is None:
        raise bad_request("The request is not HTTP/1.1")
    return callbacks.parsed


_parse_head_cached = lru_cache(_CACHED_HEADS)(parse_head)


def _check_sizes(fields: Sequence[tuple[bytes, bytes]]) -> None:
    sizes: Counter[bytes] = Counter()
    for name, value in fields:
        sizes[name] += len(value)
        if sizes[name] > VALUE_BYTES_MAX and name in READ_FIELDS:
            message = f"{name.decode().title()} must be no longer than {VALUE_BYTES_MAX} bytes"
            raise RequestError(ErrorCode.HEAD_TOO_LARGE, message)


def _check_head(line: bytes, fields: Sequence[tuple[bytes, bytes]]) -> Head:
    """Check the request line and the fields by RFC 9112, as far as the parser does not."""
    method, raw_path, query, version = _parse_request_line(line)
    found: dict[bytes, bytes] = {}
    expects_continue, keeps_alive = False, version == "1.1"
    for name, value in fields:
        if name in _SINGLETONS:
            if name in found:
                raise bad_request(_SINGLETONS[name])
            found[name] = value
        elif name == b"expect":
            # HTTP/1.0 has no 100 (RFC 9110 §10.1.1).
            expects_continue |= value.lower() == b"100-continue" and version == "1.1"
        elif name == b"connection":
            options = [option.strip(b" \t") for option in value.lower().split(b",")]
            keeps_alive = keeps_alive and b"close" not in options
    _check_host(found.get(b"host"), version)
    body_bytes: int | None = int(found.get(b"content-length", 0))  # the parser accepts only digits
    if (coding := found.get(b"transfer-encoding")) is not None:
        _check_transfer_coding(coding, version)
        body_bytes = None
    if len(raw_path) > VALUE_BYTES_MAX:
        message = f"The path must be no longer than {VALUE_BYTES_MAX} bytes"
        raise RequestError(ErrorCode.HEAD_TOO_LARGE, message)
    path = raw_path.decode()
    return Head(
        method.decode(),
        unquote(path) if "%" in path else path,
        query.decode(),
        _by_name(fields),
        version,
        path,
        body_bytes,
        expects_continue,
        keeps_alive,
    )


def _by_name(fields: Sequence[tuple[bytes, bytes]]) -> Fields:
    """Return fields by their names. Several lines of a name are one value (RFC 9110 §5.3)."""
    found: dict[str, str] = {}
    for name, value in fields:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        found[key] = f"{found[key]},{text}" if key in found else text
    return found


def _parse_request_line(line: bytes) -> tuple[bytes, bytes, bytes, str]:
    """Return method, path, query and version.

    The line is three words with one space between them, and the target is ASCII (RFC 9112 §3).
    """
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
    return method, path, query, _VERSIONS[version]


def _check_host(host: bytes | None, version: str) -> None:
    """Check the Host field: a host and an optional port. HTTP/1.0 needs none (RFC 9112 §3.2)."""
    if host is None:
        if version != "1.0":
            raise bad_request("The request must have one Host field")
    elif not _HOST.fullmatch(host) or _BARE_PERCENT.search(host):
        raise bad_request("The Host field must be a host with an optional port")


def _check_transfer_coding(coding: bytes, version: str) -> None:
    """Accept only chunked (RFC 9112 §6.1)."""
    if version == "1.0":
        raise bad_request("A request of HTTP/1.0 must have no Transfer-Encoding")
    if coding.lower() != b"chunked":
        raise RequestError(ErrorCode.NOT_IMPLEMENTED, "The Transfer-Encoding must be chunked")


def bad_request(message: str) -> RequestError:
    """Return the error for a request that violates HTTP."""
    return RequestError(ErrorCode.BAD_REQUEST, message)


def _head_too_large() -> RequestError:
    return RequestError(
        ErrorCode.HEAD_TOO_LARGE, f"The head must be no larger than {HEAD_BYTES_MAX} bytes"
    )


# Responses.

# Heads of responses that are cached. Most differ only in the length of the body.
_CACHED_RESPONSE_HEADS: Final = 256

# The fields of each response. Responses are for the owner of the token, so caches must not store
# them (RFC 9111 §5.2.2.5), unless a response has its own Cache-Control. Browsers must not guess
# a content type other than the declared one.
_NO_STORE: Final = "cache-control: no-store"
_NO_SNIFF: Final = "x-content-type-options: nosniff"

_STATUSES_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

# The end of a chunked body (RFC 9112 §7.1).
LAST_CHUNK: Final = b"0\r\n\r\n"


@lru_cache(_CACHED_RESPONSE_HEADS)
def render_head(  # noqa: PLR0917 (the cache finds positions faster than names)
    status: int,
    fields: tuple[tuple[str, str], ...],
    body_bytes: int | None,
    date: str = "",
    is_chunked: bool = False,  # noqa: FBT001, FBT002
    keeps_alive: bool = True,  # noqa: FBT001, FBT002
) -> bytes:
    """Render the head of a response.

    Args:
        status: of the response.
        fields: of the response.
        body_bytes: the length of the body; None if the body has pieces.
        date: the present, as HTTP has it; empty if it is unknown.
        is_chunked: whether the pieces of the body are chunks.
        keeps_alive: whether the connection may be used for another request.

    Raises:
        RuntimeError: a field has a line end in it.

    """
    names = {name.lower(): value for name, value in fields}
    lines = [f"date: {date}"] if date else []
    if body_bytes is not None and status not in _STATUSES_WITHOUT_BODY:
        lines.append(f"content-length: {body_bytes}")
    if body_bytes == 0:  # it describes nothing (RFC 9110 §8.3)
        names.pop("content-type", None)
    lines += [f"{name}: {value}" for name, value in names.items()]
    lines.append(_NO_SNIFF)
    if "cache-control" not in names:
        lines.append(_NO_STORE)
    if is_chunked:
        lines.append("transfer-encoding: chunked")
    if not keeps_alive:
        lines.append("connection: close")
    head = "\r\n".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines) - 1:
        raise RuntimeError("A field of the response has a line end in it")
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\n{head}\r\n\r\n".encode("latin-1")


def render_chunk(piece: bytes) -> bytes:
    """Return a piece of a body as a chunk; nothing if it is empty, since that would be the end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
