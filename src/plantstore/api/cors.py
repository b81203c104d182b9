"""CORS: allows web pages of other origins to call the service from a browser.

The rules are those of the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol).
Falcon's middleware answers preflights, and adds the fields to responses. The errors that are
answered without Falcon, such as those about overload and shutdown, get the same fields.
"""

import re
from collections.abc import Collection
from typing import Final

import falcon

from plantstore.errors import RequestError, UsageError, quoted
from plantstore.server.interface import ErrorResponse, Fields, RenderError

ANY_ORIGIN: Final = "*"

# Scheme, host and port, as browsers write an origin (RFC 6454 §6.2). A host is a name, an IPv4
# address, or an IPv6 address in brackets.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")

# The fields of a response that a page may read.
_EXPOSED: Final = (
    "Changes-After, Changes-Before, Content-Disposition, ETag, Link, Preference-Applied,"
    " Retry-After, Total-Count, Untagged-Count, X-Request-Id"
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


class CrossOrigin(falcon.CORSMiddleware):  # type: ignore[type-arg]  # not generic in 4.2
    """Allows web pages of some origins to send requests and to read the responses.

    Credentials are never allowed. They are not needed: the page itself sends the token, while a
    browser would send a cookie on its own. So even if all origins are allowed, a page
    without a token can only read what anyone may read.

    Args:
        origins: of the pages; `*` allows all.

    Raises:
        UsageError: one is malformed.

    """

    def __init__(self, origins: Collection[str]) -> None:
        allowed = {parse_origin(origin) for origin in origins}
        super().__init__(ANY_ORIGIN if ANY_ORIGIN in allowed else allowed, _EXPOSED)

    def process_response(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        resource: object,
        req_succeeded: bool,  # noqa: FBT001 (the signature is Falcon's)
    ) -> None:
        """Add the fields. `Vary` tells caches that another origin gets others."""
        super().process_response(req, resp, resource, req_succeeded)
        resp.append_header("Vary", "Origin")


def readable_errors(render: RenderError, origins: Collection[str]) -> RenderError:
    """Return a function that renders errors so that pages of these origins can read them.

    It is for the errors of requests that do not reach Falcon.
    """
    if not origins:
        return render
    allowed = {parse_origin(origin).encode() for origin in origins}

    def render_readable(error: RequestError, request_fields: Fields) -> ErrorResponse:
        response = render(error, request_fields)
        fields = {"Vary": "Origin"}
        origin = dict(request_fields).get(b"origin")
        if origin is not None and not allowed.isdisjoint((origin, ANY_ORIGIN.encode())):
            told = ANY_ORIGIN if ANY_ORIGIN.encode() in allowed else origin.decode()
            fields |= {
                "Access-Control-Allow-Origin": told,
                "Access-Control-Expose-Headers": _EXPOSED,
            }
        return response._replace(headers=response.headers | fields)

    return render_readable
