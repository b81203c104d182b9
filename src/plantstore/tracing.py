"""Request ids, which continue a W3C trace context (https://www.w3.org/TR/trace-context)."""

import random
import re
from collections.abc import Iterable
from typing import Final

# §3.2: version, trace-id, parent-id, flags, and fields that versions after 00 may append.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)

# The header of an answer that has the id of its request.
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


def request_id(fields: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of a request with these headers: its trace id, or a random one."""
    return continued_trace(fields) or f"{random.getrandbits(128):032x}"
