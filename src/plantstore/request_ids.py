"""The id of a request: its `X-Request-Id`, or the trace id of a W3C trace context.

https://www.w3.org/TR/trace-context
"""

import random
import re
from collections.abc import Mapping
from typing import Final

# A traceparent (§3.2): version, trace-id, parent-id, flags, and what later versions may append.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)

# The ids that proxies create: hexadecimal digits, UUIDs, base64, HAProxy's addresses and times.
_GIVEN_ID: Final = re.compile(r"[\w.~+/=:@-]{1,128}", re.ASCII)

# The response header with the id of the request.
REQUEST_ID_FIELD: Final = "X-Request-Id"


def parse_trace_id(traceparent: str) -> str | None:
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
    return given if _GIVEN_ID.fullmatch(given) else parse_trace_id(fields.get("traceparent", ""))


def request_id(fields: Mapping[str, str]) -> str:
    """Return the id of a request with these header fields, or a random id if it has none."""
    return known_id(fields) or f"{random.getrandbits(128):032x}"
