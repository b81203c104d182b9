"""HTTP messages as plain values: all that the server and its application know of each other.

An operation of an application is a function of a request that returns a response, or raises an
error:

    async def operation(request: Request) -> Response

So an operation needs no server to be called:

    response = await operation(Request("GET", "/plants/1"))
"""

import random
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Final, Protocol, Self, TypeAlias

import msgspec

# Host and port.
Address: TypeAlias = tuple[str, int]

# Header fields by their names. Those of a request have names in lower case, and the values of
# several lines of one name are joined by commas (RFC 9110 §5.3).
Fields: TypeAlias = Mapping[str, str]


class ArrivingBody(Protocol):
    """A body that had not arrived when its operation began. It is iterated over once.

    If the client waits for permission to send the body, the iteration gives it (RFC 9110 §10.1.1).
    The iteration raises ClientGoneError if the client disconnects before the end.
    """

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes:
        """Return what has arrived since the last call, at least one byte."""

    def as_stream(self) -> Self:
        """Let the body have any length and take any time.

        Only what is held of it counts against the bounds, and the operation has to refuse a client
        that is too slow. If the rest of the body is not valid, the iteration raises the error, and
        the operation responds with it, since it knows what is done already.
        """


def _never() -> bool:
    return False


class Request(msgspec.Struct):
    """A request.

    Attributes:
        method: as it was sent.
        path: decoded. Invalid UTF-8 is U+FFFD, and a percent sign that encodes nothing stays.
        query: as it was sent.
        fields: the header fields.
        body: complete, or as it arrives.
        client: its address; None if it is unknown.
        scheme: http or https.
        version: 1.0 or 1.1.
        raw_path: the path as it was sent.
        is_client_gone: returns whether the client has closed its side of the connection. It is
            noticed also while data waits that nobody has read.
        token: the name of the valid token of the request; empty if there is none. The application
            sets it. When memory is short, clients without one are disconnected first.
        route: the template of the path, such as `/plants/{id}`; empty if the path is unknown. The
            application sets it.

    """

    method: str
    path: str
    query: str = ""
    fields: Fields = {}
    body: bytes | ArrivingBody = b""
    client: Address | None = None
    scheme: str = "http"
    version: str = "1.1"
    raw_path: str = ""
    is_client_gone: Callable[[], bool] = _never
    token: str = ""
    route: str = ""


class Response(msgspec.Struct):
    """A response.

    Attributes:
        status: of HTTP.
        fields: the header fields. The server adds those that all responses have, and the length.
        body: complete, or in parts of any size. The server closes the generator, whatever happens.
        is_shared: whether the body exists anyway, as a file does. Then it does not count as memory
            that is held for the client.

    """

    status: int
    fields: dict[str, str] = {}
    body: bytes | AsyncGenerator[bytes, None] = b""
    is_shared: bool = False


class Application(Protocol):
    """What a server serves."""

    async def __call__(self, request: Request) -> Response:
        """Return the response to a request, or raise the error that `fail` responds with."""

    def fail(self, error: BaseException, request: Request) -> Response:
        """Return the response to a request that failed: here, in the server, or on its way.

        If the head of the request is not valid, the request has nothing but the fields that were
        read of it.
        """


async def pieces(body: bytes | ArrivingBody) -> AsyncIterator[bytes]:
    """Yield the pieces of a body, as they arrive."""
    if isinstance(body, bytes):
        yield body
    else:
        async for piece in body:
            yield piece


# A traceparent (https://www.w3.org/TR/trace-context §3.2): version, trace-id, parent-id, flags, and
# what later versions may append.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)

# The ids that proxies create: hexadecimal digits, UUIDs, base64, HAProxy's addresses and times.
_GIVEN_ID: Final = re.compile(r"[\w.~+/=:@-]{1,128}", re.ASCII)

# The response header with the id of the request.
REQUEST_ID_FIELD: Final = "X-Request-Id"


def _parse_trace_id(traceparent: str) -> str | None:
    """Return the trace id of a `traceparent`, 32 hexadecimal digits; None if it is malformed."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return None
    version, trace_id, more = match.groups()
    return None if version == "00" and more else trace_id


def known_id(fields: Mapping[str, str]) -> str | None:
    """Return the id in the header fields of a request; None if there is none.

    It is the `X-Request-Id`, if there is exactly one and it is valid: it has at most 128
    characters, and none with a special meaning in a line of a log. Otherwise it is the trace id.
    """
    given = fields.get("x-request-id", "")
    return given if _GIVEN_ID.fullmatch(given) else _parse_trace_id(fields.get("traceparent", ""))


def request_id(fields: Mapping[str, str]) -> str:
    """Return the id of a request with these header fields, or a random id if it has none."""
    return known_id(fields) or f"{random.getrandbits(128):032x}"
