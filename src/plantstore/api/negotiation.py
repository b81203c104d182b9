"""What a client prefers: the media type of a response (RFC 9110 §12.5.1), and more (RFC 7240)."""

import re
from collections.abc import Sequence
from typing import Final

from falcon import mediatypes
from falcon.asgi import Request

# Maximum length of an Accept field. A longer field is ignored. Prometheus sends 300 characters.
ACCEPT_CHARACTERS_MAX: Final = 2048

# An element of a list (RFC 9110 §5.6.1). A comma within quotes does not separate elements. A
# quoted string without an end extends to the end of the field.
_ELEMENT: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.?)*"?)+')

# A media range with its parameters and its weight, in lower case. It has no comma, because
# Falcon splits a field at each comma. None of our media types has a parameter with a comma.
# A text matches in one way at most, so a match takes linear time.
_WORD: Final = r"[!#$%&'+.^_`|~0-9a-z-]+"
_WEIGHT: Final = r"q=(?:0(?:\.[0-9]*)?|1(?:\.0*)?)"
_PARAMETER: Final = rf'(?!q=){_WORD}=(?:{_WORD}|"(?:[^"\\,]|\\[^,])*")'
_MEDIA_RANGE: Final = re.compile(
    rf"(?:\*(?:/\*)?|{_WORD}/(?:\*|{_WORD}))[ \t]*"
    rf"(?:;[ \t]*(?:(?:{_WEIGHT}|{_PARAMETER})[ \t]*)?)*"
)


def choose_media_type(media_types: Sequence[str], accept: str) -> str:
    """Return the media type that an Accept field prefers, or else the first one.

    If the field accepts none of the media types, the first one is returned, as RFC 9110 §12.4.1
    allows. A malformed media range is ignored. A parameter that a media type does not have is
    ignored, too: Prometheus sends `escaping`.
    """
    if len(accept) > ACCEPT_CHARACTERS_MAX:
        return media_types[0]
    # Media types are case-insensitive (§8.3.1), and ours are in lower case.
    elements = [element.strip(" \t") for element in elements_of(accept.lower())]
    ranges = ",".join(filter(_MEDIA_RANGE.fullmatch, elements))
    return (ranges and mediatypes.best_match(media_types, ranges)) or media_types[0]


def elements_of(field: str) -> list[str]:
    """Return the elements of a field that is a list (RFC 9110 §5.6.1)."""
    return _ELEMENT.findall(field)


def has_preference(req: Request, preference: str) -> bool:
    """Return whether a request has a preference, such as `return=minimal`.

    If a preference is given several times, the first one counts (RFC 7240 §2).
    """
    wanted, _, wanted_value = preference.partition("=")
    for element in elements_of(req.get_header("Prefer") or ""):
        name, _, value = element.lower().partition(";")[0].partition("=")
        if name.strip() == wanted:
            return value.strip().strip('"') == wanted_value
    return False
