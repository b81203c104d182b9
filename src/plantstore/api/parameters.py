"""Reads bodies, parameters and preferences, all of them limited; and makes responses of JSON."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from typing import Final
from urllib.parse import parse_qsl

from plantstore.change_sets import is_name
from plantstore.errors import ErrorCode, RequestError, quoted, shorten
from plantstore.integers import INT64_MAX, INT64_MIN, describe_not_integer, parse_int64
from plantstore.messages import Request, Response, pieces
from plantstore.plants import PLANT_BYTES_MAX

MEDIA_JSON: Final = "application/json"

# The field of a request that changes plants, and of its response: the name of a change set.
CHANGE_SET: Final = "Change-Set"

# The media type of a merge patch (RFC 7396 §4).
MERGE_PATCH: Final = "application/merge-patch+json"

# A media type with parameters that contradict nothing. Both are case-insensitive. A charset may be
# quoted (RFC 9110 §8.3.1), a parameter may be empty (§5.6.6), and CSV may say that it has a header
# (RFC 4180 §3). `utf8` is not a registered name, but some clients send it.
_MEDIA_TYPE: Final = re.compile(
    r'([!-+\--:<-~]+)[ \t]*(?:;[ \t]*(?:(?:charset=(?:utf-?8|"utf-?8")|header=present)[ \t]*)?)*',
    re.IGNORECASE | re.ASCII,
)


def json_response(body: bytes, fields: dict[str, str] | None = None, status: int = 200) -> Response:
    """Return a response whose body is JSON."""
    return Response(status, {"Content-Type": MEDIA_JSON, **(fields or {})}, body)


async def require_empty(request: Request, advice: str) -> None:
    """Check that a request has no body.

    Raises:
        RequestError: INVALID_PARAMETER, with the advice. The rest of the body is not read.

    """
    async for piece in pieces(request.body):
        if piece:
            raise invalid(f"The body must be empty: {advice}")


def json_head() -> Response:
    """Return the response to HEAD for JSON of a page.

    It has no field that the content determines (RFC 9110 §9.3.2): to read the page would cost many
    times a create.
    """

    async def unread() -> AsyncGenerator[bytes, None]:
        yield b""  # its length is unknown

    return Response(200, {"Content-Type": MEDIA_JSON}, unread())


async def read_record(request: Request, media_types: Sequence[str] = (MEDIA_JSON,)) -> bytes:
    """Read the body of a request, which must have one of these media types.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE; or as `read_body` does.

    """
    given = request.fields.get("content-type", "")
    if given not in media_types and media_type_of(given) not in media_types:
        names = " or ".join(media_types)
        raise unsupported(f"Content-Type must be {names}, got {_shown(given)}", media_types)
    if "content-encoding" in request.fields:
        require_no_coding(request, media_types)
    body = request.body
    if isinstance(body, bytes) and len(body) <= PLANT_BYTES_MAX:  # as most are
        return body
    return await read_body(request)


async def read_body(request: Request) -> bytes:
    """Read the body of a request, which has at most PLANT_BYTES_MAX.

    A body whose Content-Length is larger is not read. One without a Content-Length is counted as it
    arrives.

    Raises:
        RequestError: BODY_TOO_LARGE.

    """
    body = request.body
    if isinstance(body, bytes):
        if len(body) > PLANT_BYTES_MAX:
            raise _too_large()
        return body
    if int(request.fields.get("content-length", 0)) > PLANT_BYTES_MAX:
        raise _too_large()
    read = b""
    async for piece in body:
        read += piece
        if len(read) > PLANT_BYTES_MAX:
            raise _too_large()
    return read


def _too_large() -> RequestError:
    message = f"The body must be no larger than {PLANT_BYTES_MAX} bytes"
    return RequestError(ErrorCode.BODY_TOO_LARGE, message)


def media_type_of(content_type: str) -> str | None:
    """Return the media type in lower case; None if it is malformed or has other parameters."""
    found = _MEDIA_TYPE.fullmatch(content_type)
    return None if found is None else found[1].lower()


def require_no_coding(request: Request, media_types: Sequence[str]) -> None:
    """Refuse a body with a content coding, such as gzip.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE, if it has one.

    """
    coding = request.fields.get("content-encoding")
    if coding is not None:
        raise unsupported(f"Content-Encoding must be absent, got {_shown(coding)}", media_types)


def unsupported(message: str, media_types: Sequence[str]) -> RequestError:
    """Return the error of a body that has none of these media types, or a content coding."""
    # Name the accepted media types (RFC 9110 §15.5.16) and codings (§12.5.3).
    fields = {"Accept": ", ".join(media_types), "Accept-Encoding": "identity"}
    if MERGE_PATCH in media_types:  # RFC 5789 §2.2 has a field of its own for PATCH
        fields["Accept-Patch"] = MERGE_PATCH
    return RequestError(ErrorCode.UNSUPPORTED_MEDIA_TYPE, message, fields)


def _shown(field: str) -> str:
    return quoted(field) if field else "none"


# An element of a list (RFC 9110 §5.6.1). A comma within quotes does not separate elements. A
# quoted string without an end extends to the end of the field.
_ELEMENT: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.?)*"?)+')


def has_preference(request: Request, preference: str) -> bool:
    """Return whether a request has a preference, such as `return=minimal`.

    If a preference is given several times, the first one counts (RFC 7240 §2).
    """
    wanted, _, wanted_value = preference.partition("=")
    elements: list[str] = _ELEMENT.findall(request.fields.get("prefer", ""))
    for element in elements:
        name, _, value = element.lower().partition(";")[0].partition("=")
        if name.strip() == wanted:
            return value.strip().strip('"') == wanted_value
    return False


INT32_MAX: Final = 2**31 - 1

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


def read_query(request: Request, *known: str) -> dict[str, str]:
    """Return the parameters of a query, of which only these are known. Each may be given once.

    An unknown parameter is refused: otherwise a filter with a misspelled name would return
    everything.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    if not request.query:
        return {}
    try:
        pairs = parse_qsl(
            request.query,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_PARAMETERS_MAX,
        )
    except UnicodeDecodeError:
        raise invalid("The query is not UTF-8") from None
    except ValueError:
        raise invalid(f"The query must have at most {_PARAMETERS_MAX} parameters") from None
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


def set_of(request: Request) -> str | None:
    """Return the name of the set in which a request makes its changes; None if there is none.

    Raises:
        RequestError: INVALID_PARAMETER, if it is malformed.

    """
    name = request.fields.get("change-set")
    return None if name is None else parse_set_name(CHANGE_SET, name)


def parse_set_name(what: str, text: str) -> str:
    """Return the name of a set.

    Args:
        what: the parameter or the field, for the message.
        text: the name.

    Raises:
        RequestError: INVALID_PARAMETER, if it is malformed.

    """
    if not is_name(text):
        message = (
            f"`{what}` must be 16 to 64 of the characters A-Z a-z 0-9 - _ . and not {quoted(text)}"
        )
        raise invalid(message)
    return text


def invalid(message: str) -> RequestError:
    """Return the error of a parameter."""
    return RequestError(ErrorCode.INVALID_PARAMETER, message)
