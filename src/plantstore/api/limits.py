"""Limits on request bodies and on quoted text."""

import re
from collections.abc import Sequence
from typing import Final

from falcon import MEDIA_JSON
from falcon.asgi import Request

from plantstore.errors import ErrorCode, RequestError, UnsupportedMediaTypeError
from plantstore.plants import PLANT_BYTES_MAX

# The media type of a merge patch (RFC 7396 §4).
MERGE_PATCH: Final = "application/merge-patch+json"

# Media types and charsets are case-insensitive. A charset may be quoted (RFC 9110 §8.3.1), and a
# parameter may be empty (§5.6.6). `utf8` is not a registered name, but some clients send it.
_PARAMETERS: Final = r'[ \t]*(?:;[ \t]*(?:charset=(?:utf-?8|"utf-?8")[ \t]*)?)*'
_MEDIA_TYPES: Final = {
    media_type: re.compile(re.escape(media_type) + _PARAMETERS, re.IGNORECASE | re.ASCII)
    for media_type in (MEDIA_JSON, MERGE_PATCH)
}

# Maximum length of a refused header or parameter in an error message.
_QUOTED_CHARACTERS_MAX: Final = 40


def shorten(text: str) -> str:
    """Return a client's text, cut to the length that error messages quote."""
    return text if len(text) <= _QUOTED_CHARACTERS_MAX else f"{text[:_QUOTED_CHARACTERS_MAX]}..."


async def read_json_body(req: Request, wanted: str = MEDIA_JSON) -> bytes:
    """Read the body of a request, which must be JSON or a merge patch, up to PLANT_BYTES_MAX.

    A body whose Content-Length is too large is not read at all. A chunked body is counted as
    it arrives. `wanted` is the media type that it must have.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE or BODY_TOO_LARGE.

    """
    media_type = req.content_type
    if media_type != wanted and not _MEDIA_TYPES[wanted].fullmatch(media_type or ""):
        raise UnsupportedMediaTypeError(
            f"Content-Type must be {wanted}, got {_shown(media_type)}", [wanted]
        )
    require_no_coding(req, [wanted])
    announced = req.content_length
    if announced is None:
        body: bytes = await req.stream.read(PLANT_BYTES_MAX + 1)
        announced = len(body)
    elif announced <= PLANT_BYTES_MAX:
        body = await req.stream.readall()
    if announced > PLANT_BYTES_MAX:
        message = f"The body must be no larger than {PLANT_BYTES_MAX} bytes"
        raise RequestError(ErrorCode.BODY_TOO_LARGE, message)
    return body


def require_no_coding(req: Request, media_types: Sequence[str]) -> None:
    """Refuse a body with a content coding, such as gzip.

    Raises:
        UnsupportedMediaTypeError: it has one.

    """
    coding = req.get_header("Content-Encoding")
    if coding is not None:
        raise UnsupportedMediaTypeError(
            f"Content-Encoding must be absent, got {_shown(coding)}", media_types
        )


def _shown(field: str | None) -> str:
    return shorten(field) if field else "none"
