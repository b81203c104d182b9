"""CORS: allows web pages of other origins to call the service from a browser.

The rules are those of the Fetch standard (https://fetch.spec.whatwg.org/#http-cors-protocol).
"""

import re
from collections.abc import Collection
from typing import Final

from plantstore.errors import UsageError, quoted
from plantstore.messages import Request, Response

ANY_ORIGIN: Final = "*"

# Scheme, host and port, as browsers write an origin (RFC 6454 §6.2). A host is a name, an IPv4
# address, or an IPv6 address in brackets.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")

# How long a browser may keep the response to a preflight.
_PREFLIGHT_SECONDS: Final = 24 * 60 * 60

# The fields of a response that a page may read.
_EXPOSED: Final = (
    "Change-Set, Changes-After, Changes-Before, Content-Disposition, ETag, Link,"
    " Preference-Applied, Retry-After, Total-Count, Untagged-Count, X-Request-Id"
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


class CrossOrigin:
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
        self._origins = {parse_origin(origin) for origin in origins}

    def allow(self, request: Request, response: Response) -> None:
        """Add the fields to a response. `Vary` tells caches that another origin gets others."""
        fields = response.fields
        fields["Vary"] = f"{fields['Vary']}, Origin" if "Vary" in fields else "Origin"
        origin = request.fields.get("origin")
        if origin is None or self._origins.isdisjoint((origin, ANY_ORIGIN)):
            return
        fields["Access-Control-Allow-Origin"] = (
            ANY_ORIGIN if ANY_ORIGIN in self._origins else origin
        )
        fields["Access-Control-Expose-Headers"] = _EXPOSED
        asks = request.fields.get("access-control-request-method")
        if request.method == "OPTIONS" and asks and "Allow" in fields:  # a preflight
            wanted = request.fields.get("access-control-request-headers", "*")
            fields["Access-Control-Allow-Methods"] = fields.pop("Allow")
            fields["Access-Control-Allow-Headers"] = wanted
            fields["Access-Control-Max-Age"] = str(_PREFLIGHT_SECONDS)
