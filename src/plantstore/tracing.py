"""Request ids: `X-Request-Id`, or the trace id of a W3C trace context.

https://www.w3.org/TR/trace-context describes trace contexts.
"""

import random
import re
from collections.abc import Sequence
from typing import Final

# §3.2: version, trace-id, parent-id, flags, and fields that versions after 00 may append.
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


def known_id(fields: Sequence[tuple[bytes, bytes]]) -> str | None:
    """Return the id in the header fields of a request; None if there is none.

    It is the `X-Request-Id`, if there is exactly one and it is valid: it has at most 128
    characters, and none with a special meaning in a line of a log. Otherwise it is the trace id.
    """
    given = _values(fields, b"x-request-id")
    if len(given) == 1 and _GIVEN_ID.fullmatch(given[0]):
        return given[0]
    return parse_trace_id(",".join(_values(fields, b"traceparent")))


def request_id(fields: Sequence[tuple[bytes, bytes]]) -> str:
    """Return the id of a request with these header fields, or a random id if it has none."""
    return known_id(fields) or f"{random.getrandbits(128):032x}"


def _values(fields: Sequence[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in fields if name == wanted]
