"""CORS: allows web pages of other origins to call the service from a browser.

The rules are those of the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol).
Falcon has a middleware for this. But it does not see the responses that bypass Falcon, about
overload and shutdown: a page could not read them. It also sends no `Vary`.
"""

import re
from collections.abc import Collection
from typing import Final

from plantstore.errors import RequestError, UsageError, quoted
from plantstore.server.interface import (
    ASGIApp,
    ErrorAnswer,
    Event,
    Fields,
    Receive,
    RenderError,
    Scope,
    Send,
)

ANY_ORIGIN: Final = "*"

# How long a browser may cache the response to a preflight. Chromium's limit is two hours.
PREFLIGHT_SECONDS: Final = 7200

# Scheme, host and port, as browsers write an origin (RFC 6454 §6.2). A host is a name, an IPv4
# address, or an IPv6 address in brackets.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")

_VARY: Final = (b"vary", b"Origin")
_ALLOWED: Final = b"access-control-allow-origin"

# Every method is allowed on every path. If a resource does not have it, the page can read the 405.
_PREFLIGHT_FIELDS: Final = [
    (b"access-control-allow-methods", b"DELETE, GET, HEAD, PATCH, POST, PUT"),
    (
        b"access-control-allow-headers",
        (
            b"authorization, content-encoding, content-type, if-match, if-none-match,"
            b" last-event-id, prefer, traceparent, tracestate, x-request-id"
        ),
    ),
    (b"access-control-max-age", b"%d" % PREFLIGHT_SECONDS),
]
_EXPOSED: Final = (
    b"access-control-expose-headers",
    (
        b"Changes-After, Content-Disposition, ETag, Link, Preference-Applied, Retry-After,"
        b" Total-Count, X-Request-Id"
    ),
)


def parse_origin(text: str) -> str:
    """Return an origin as browsers send it, or `*` for any.

    Raises:
        UsageError: it is neither.

    """
    origin = text.lower()
    if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
        raise UsageError(
            "--allow-origin must be an origin such as https://app.example:8443, with no path and"
            f" no slash at the end, or *; got {quoted(text)}"
        )
    # Browsers leave out the default port of a scheme.
    if origin.startswith("http://"):
        return origin.removesuffix(":80")
    return origin.removesuffix(":443") if origin.startswith("https://") else origin


class Origins:
    """The origins whose pages may send requests and read the responses.

    Args:
        origins: as `parse_origin` takes them.

    Raises:
        UsageError: one is malformed.

    """

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(parse_origin(each).encode() for each in origins)
        self._allows_all = ANY_ORIGIN.encode() in self._origins

    def allow(self, request_fields: Fields) -> bytes | None:
        """Return the allowed origin for a request; None if it has none, or another."""
        origin = dict(request_fields).get(b"origin")
        if origin is None or not (self._allows_all or origin in self._origins):
            return None
        return ANY_ORIGIN.encode() if self._allows_all else origin


def readable_errors(render: RenderError, origins: Collection[str]) -> RenderError:
    """Return a function that renders errors so that pages of these origins can read them.

    The server sends the errors of requests that do not reach the application with it.
    """
    if not origins:
        return render
    allowed_origins = Origins(origins)

    def render_readable(error: RequestError, request_fields: Fields) -> ErrorAnswer:
        answer = render(error, request_fields)
        allowed = allowed_origins.allow(request_fields)
        fields = [_VARY] if allowed is None else [_VARY, (_ALLOWED, allowed), _EXPOSED]
        added = {name.decode(): value.decode("latin-1") for name, value in fields}
        return answer._replace(headers=answer.headers | added)

    return render_readable


class CrossOrigin:
    """Allows web pages of some origins to send requests and to read the responses.

    Credentials are never allowed. They are not needed: the page itself sends the token, while a
    browser would send a cookie on its own. So even if all origins are allowed, a page can do
    nothing without a token.

    Args:
        app: handles the requests.
        origins: of the pages; `*` allows all.

    """

    def __init__(self, app: ASGIApp, origins: Collection[str]) -> None:
        self._app = app
        self._origins = Origins(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or ASGI's lifespan events (ASGI 3)."""

        async def send_with_fields(event: Event) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], *self._fields(scope)]}
            await send(event)

        await self._app(scope, receive, send_with_fields)

    def _fields(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the fields that are added to the header of a response."""
        allowed = self._origins.allow(scope["headers"])
        more = _PREFLIGHT_FIELDS if scope["method"] == "OPTIONS" else [_EXPOSED]
        return [_VARY] if allowed is None else [_VARY, (_ALLOWED, allowed), *more]
