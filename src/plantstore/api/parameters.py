"""Parses the parameters of paths and queries."""

from collections import Counter
from typing import Final

from falcon import uri
from falcon.asgi import Request

from plantstore.api.limits import shorten
from plantstore.errors import ErrorCode, RequestError
from plantstore.plants import describe_not_integer, parse_int64

INT32_MAX: Final = 2**31 - 1

IDS_PARAMETERS: Final = frozenset({"count"})
NO_PARAMETERS: Final[frozenset[str]] = frozenset()

# U+FFFD, percent-encoded. Decoding replaces invalid UTF-8 by U+FFFD; a client may also send it.
_REPLACEMENT: Final = "%EF%BF%BD"

# A query with more parameters is refused before it is parsed.
_PARAMETERS_MAX: Final = 10


def parse_id(text: str, what: str = "id") -> int:
    """Parse an id from a path or a query; `what` is its name in messages.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    value = text.encode(errors="replace")
    id_ = parse_int64(value)
    if id_ is None:
        raise invalid(describe_not_integer(what, value))
    return id_


def parse_number(parameters: dict[str, str], name: str, default: int, maximum: int) -> int:
    """Parse a parameter that is a number from 1 to a maximum.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    value = parameters.get(name, str(default)).encode(errors="replace")
    number = parse_int64(value)
    if number is None or not 1 <= number <= maximum:
        raise invalid(describe_not_integer(name, value, 1, maximum))
    return number


def read_query(req: Request, known: frozenset[str]) -> dict[str, str]:
    """Return the parameters of a query. Each may be given once.

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
