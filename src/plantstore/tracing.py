"""Request ids: those that a trusted proxy gave, or those of a W3C trace context.

https://www.w3.org/TR/trace-context has the latter.
"""

import random
import re
from collections.abc import Iterable, Sequence
from typing import Final

# §3.2: version, trace-id, parent-id, flags, and fields that versions after 00 may append.
_TRACEPARENT: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)

# The name under which the header fields of a request hold the id that a trusted proxy gave it.
# No client can send this field: a name has no colon (RFC 9110 §5.1).
GIVEN_ID_FIELD: Final = b":request-id"

# Ids as proxies make them: hexadecimal digits, UUIDs, base64, HAProxy's addresses and times.
_GIVEN_ID: Final = re.compile(r"[\w.~+/=:@-]{1,128}", re.ASCII)

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


def parse_given_id(values: Sequence[str]) -> str | None:
    """Return the id in the `X-Request-Id` fields of a proxy; None if there is no single good one.

    It has 128 characters at most, and none that means something in a line of a log.
    """
    return values[0] if len(values) == 1 and _GIVEN_ID.fullmatch(values[0]) else None


def known_id(fields: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return what a trusted proxy calls a request with these header fields, or else its trace."""
    fields = list(fields)
    given = [value.decode("latin-1") for name, value in fields if name == GIVEN_ID_FIELD]
    return given[0] if given else continued_trace(fields)


def request_id(fields: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the id of a request with these headers: the one that it has, or a random one."""
    return known_id(fields) or f"{random.getrandbits(128):032x}"
