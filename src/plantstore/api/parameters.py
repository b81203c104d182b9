"""Reads bodies, parameters of paths and queries, and preferences. All of them are limited."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from falcon import MEDIA_JSON, uri
from falcon.asgi import Request

from plantstore.errors import ErrorCode, RequestError, quoted, shorten
from plantstore.plants import (
    INT64_MAX,
    INT64_MIN,
    PLANT_BYTES_MAX,
    describe_not_integer,
    parse_int64,
)
from plantstore.server.interface import BODY

# The media type of a merge patch (RFC 7396 §4).
MERGE_PATCH: Final = "application/merge-patch+json"

# Media types and charsets are case-insensitive. A charset may be quoted (RFC 9110 §8.3.1), and a
# parameter may be empty (§5.6.6). `utf8` is not a registered name, but some clients send it.
_PARAMETERS: Final = r'[ \t]*(?:;[ \t]*(?:charset=(?:utf-?8|"utf-?8")[ \t]*)?)*'
_MEDIA_TYPES: Final = {
    media_type: re.compile(re.escape(media_type) + _PARAMETERS, re.IGNORECASE | re.ASCII)
    for media_type in (MEDIA_JSON, MERGE_PATCH)
}


async def read_json_body(req: Request, *wanted: str) -> bytes:
    """Read the body of a request, which must be JSON or a merge patch, up to PLANT_BYTES_MAX.

    A body whose Content-Length is too large is not read at all, unless it is there already. A
    chunked body is counted as it arrives. `wanted` are the media types that it may have: by
    default, that of JSON.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE or BODY_TOO_LARGE.

    """
    media_type = req.content_type
    wanted = wanted or (MEDIA_JSON,)
    if media_type not in wanted and not any(
        _MEDIA_TYPES[each].fullmatch(media_type or "") for each in wanted
    ):
        names = " or ".join(wanted)
        raise unsupported(f"Content-Type must be {names}, got {_shown(media_type)}", wanted)
    require_no_coding(req, wanted)
    body: bytes | None = req.scope.get(BODY)
    if body is not None:
        size = len(body)
    elif (size := req.content_length or 0) <= PLANT_BYTES_MAX:
        body = await req.stream.read(PLANT_BYTES_MAX + 1)
        size = len(body)
    if body is None or size > PLANT_BYTES_MAX:
        message = f"The body must be no larger than {PLANT_BYTES_MAX} bytes"
        raise RequestError(ErrorCode.BODY_TOO_LARGE, message)
    return body


def require_no_coding(req: Request, media_types: Sequence[str]) -> None:
    """Refuse a body with a content coding, such as gzip.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE, if it has one.

    """
    coding = req.get_header("Content-Encoding")
    if coding is not None:
        raise unsupported(f"Content-Encoding must be absent, got {_shown(coding)}", media_types)


def unsupported(message: str, media_types: Sequence[str]) -> RequestError:
    """Return the error of a body that has none of these media types, or a content coding."""
    # Name the accepted media types (RFC 9110 §15.5.16) and codings (§12.5.3).
    fields = {"Accept": ", ".join(media_types), "Accept-Encoding": "identity"}
    if MERGE_PATCH in media_types:  # RFC 5789 §2.2 has a field of its own for PATCH
        fields["Accept-Patch"] = MERGE_PATCH
    return RequestError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, message, fields)


def _shown(field: str | None) -> str:
    return quoted(field) if field else "none"


# An element of a list (RFC 9110 §5.6.1). A comma within quotes does not separate elements. A
# quoted string without an end extends to the end of the field.
_ELEMENT: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.?)*"?)+')


def has_preference(req: Request, preference: str) -> bool:
    """Return whether a request has a preference, such as `return=minimal`.

    If a preference is given several times, the first one counts (RFC 7240 §2).
    """
    wanted, _, wanted_value = preference.partition("=")
    elements: list[str] = _ELEMENT.findall(req.get_header("Prefer") or "")
    for element in elements:
        name, _, value = element.lower().partition(";")[0].partition("=")
        if name.strip() == wanted:
            return value.strip().strip('"') == wanted_value
    return False


INT32_MAX: Final = 2**31 - 1

# U+FFFD, percent-encoded. Decoding replaces invalid UTF-8 by U+FFFD; a client may also send it.
_REPLACEMENT: Final = "%EF%BF%BD"

# A query with more parameters is refused before it is parsed.
_PARAMETERS_MAX: Final = 10


def parse_integer(
    text: str, name: str = "id", minimum: int = INT64_MIN, maximum: int = INT64_MAX
) -> int:
    """Parse an integer from a path, a query or a field; `name` is its name in messages.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    value = text.encode(errors="replace")
    number = parse_int64(value)
    if number is None or not minimum <= number <= maximum:
        raise invalid(describe_not_integer(name, value, minimum, maximum))
    return number


def parse_number(parameters: dict[str, str], name: str, default: int, maximum: int) -> int:
    """Parse a parameter that is a number from 1 to a maximum.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    return parse_integer(parameters.get(name, str(default)), name, 1, maximum)


def read_query(req: Request, *known: str) -> dict[str, str]:
    """Return the parameters of a query, of which only these are known. Each may be given once.

    An unknown parameter is refused: otherwise a filter with a misspelled name would return
    everything.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    if not req.query_string:
        return {}
    fields = req.query_string.split("&", _PARAMETERS_MAX)
    if len(fields) > _PARAMETERS_MAX:
        raise invalid(f"The query must have at most {_PARAMETERS_MAX} parameters")
    pairs = [
        (_decode(name), _decode(value))
        for name, _, value in (field.partition("=") for field in fields if field)
    ]
    for name, times in Counter(name for name, _ in pairs).items():
        if name not in known:
            raise invalid(f"The parameter `{shorten(name)}` is unknown")
        if times > 1:
            raise invalid(f"The parameter `{name}` must be given once, got {times}")
    return dict(pairs)


# Clients that are generated for PHP send 1 and 0.
_FLAGS: Final = {"": True, "true": True, "1": True, "false": False, "0": False}


def parse_flag(parameters: dict[str, str], name: str) -> bool:
    """Return whether a parameter is true; its name alone means that.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    text = parameters.get(name, "false")
    if text not in _FLAGS:
        raise invalid(f"`{name}` must be true or false, got {quoted(text)}")
    return _FLAGS[text]


def _decode(text: str) -> str:
    """Decode a name or a value; Falcon is a hundred times as fast as the standard library.

    Raises:
        RequestError: INVALID_PARAMETER, if it is not UTF-8.

    """
    decoded = uri.decode(text)
    if decoded.count("\ufffd") > text.upper().count(_REPLACEMENT):
        raise invalid("The query is not UTF-8")
    return decoded


def invalid(message: str) -> RequestError:
    """Return the error of a parameter."""
    return RequestError(ErrorCode.INVALID_PARAMETER, message)
