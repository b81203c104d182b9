"""Request ids: the id that a trusted proxy gave, or the trace id of a W3C trace context.

https://www.w3.org/TR/trace-context describes trace contexts.
"""

import random
import re
from collections.abc import Iterable, Sequence
from typing import Final

# §3.2: version, trace-id, parent-id, flags, and fields that versions after 00 may append.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)

# The service adds this header field to a request for the id that a trusted proxy gave it. No client
# can send this field, because field names have no colon (RFC 9110 §5.1).
GIVEN_ID_FIELD: Final = b":request-id"

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


def continued_trace(fields: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the trace id in the headers of a request; None if it is missing or malformed."""
    given = [value.decode("latin-1") for name, value in fields if name == b"traceparent"]
    return parse_trace_id(",".join(given))


def parse_given_id(values: Sequence[str]) -> str | None:
    """Return the id in a proxy's `X-Request-Id`; None unless there is exactly one valid field.

    A valid id has at most 128 characters, and none with a special meaning in a line of a log.
    """
    return values[0] if len(values) == 1 and _GIVEN_ID.fullmatch(values[0]) else None


def known_id(fields: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the id that a trusted proxy gave a request, or else its trace id, or None."""
    fields = list(fields)
    given = [value.decode("latin-1") for name, value in fields if name == GIVEN_ID_FIELD]
    return given[0] if given else continued_trace(fields)


def request_id(fields: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of a request with these header fields, or a random id if it has none."""
    return known_id(fields) or f"{random.getrandbits(128):032x}"
