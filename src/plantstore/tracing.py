"""What others who saw a request call it: W3C Trace Context (https://www.w3.org/TR/trace-context)."""

import random
import re
from collections.abc import Iterable
from typing import Final

# §3.2: version, trace-id, parent-id, flags; what a later version than 00 appends.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)

# The field of an answer that tells its request's id.
REQUEST_ID_FIELD: Final = "X-Request-Id"


def parse_trace_id(traceparent: str) -> str | None:
    """Return the 32 digits of the trace that a `traceparent` continues; None for a bad one."""
    match = _TRACEPARENT.fullmatch(traceparent)
    if match is None:
        return None
    version, trace_id, more = match.groups()
    return None if version == "00" and more else trace_id


def continued_trace(fields: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the trace that a request with these header fields continues, if it does."""
    given = [value.decode("latin-1") for name, value in fields if name == b"traceparent"]
    return parse_trace_id(",".join(given))


def request_id(fields: Iterable[tuple[bytes, bytes]]) -> str:
    """Return what a request with these header fields is called: its trace, or by a new id."""
    return continued_trace(fields) or f"{random.getrandbits(128):032x}"
