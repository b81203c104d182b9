"""What a client prefers: a media type, compression (RFC 9110 §12.5) and more (RFC 7240).

Large responses are compressed with gzip for clients that accept it (RFC 9110 §8.4.1.3). Static
content is compressed once, for the first client. Other responses are compressed on one separate
thread, at the fastest level: a page of a thousand plants takes about a millisecond. So compression
does not block the event loop, and uses one core at most.

No compressed response contains a secret (docs/decisions/0015), because the size of a compressed
response reveals something about its content to observers of the network.
"""

import asyncio
import functools
import gzip
import re
import zlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from falcon import mediatypes
from falcon.asgi import Request, Response

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


# Minimum size of a compressed response. Smaller responses fit into a few packets anyway.
COMPRESSED_BYTES_MIN: Final = 4 * 1024

# Bytes of responses that may wait to be compressed. Above it, responses are sent uncompressed,
# which is always allowed. Compressing 8 MiB takes a tenth of a second.
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024

# Maximum length of an Accept-Encoding field. A longer one is ignored. Browsers send 30
# characters.
ACCEPT_ENCODING_CHARACTERS_MAX: Final = 1024

_ENCODING: Final = "gzip"

# An element of Accept-Encoding: a coding with its weight, or nothing.
_CODING: Final = re.compile(
    r"(?:([\w!#$%&'*+.^`|~-]+)[ \t]*(?:;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?)?",
    re.ASCII | re.IGNORECASE,
)

# For zlib: a window of 2^15 bytes, in the format of gzip.
GZIP_WBITS: Final = 16 + 15


@functools.lru_cache(maxsize=64)
def prefers_gzip(accept_encoding: str | None) -> bool:
    """Return whether a client accepts gzip, and prefers it at least as much as no coding.

    Return False if the field is absent, malformed or too long.
    """
    if accept_encoding is None or len(accept_encoding) > ACCEPT_ENCODING_CHARACTERS_MAX:
        return False
    weights: dict[str, float] = {}
    for element in accept_encoding.split(","):
        match = _CODING.fullmatch(element.strip(" \t"))
        if match is None:
            return False
        coding, weight = match.groups()
        if coding is not None:
            # x-gzip is another name of gzip (§8.4.1.3).
            name = coding.lower().removeprefix("x-")
            weights[name] = max(weights.get(name, 0.0), float(weight or 1))
    # A coding that is not named has the weight of `*`. Without `*`, gzip is not accepted. No
    # coding (`identity`) is accepted, but preferred less than any named coding.
    gzip_weight = weights.get(_ENCODING, weights.get("*", 0.0))
    return gzip_weight > 0 and gzip_weight >= weights.get("identity", 0.0)


class StaticContent:
    """Content that never changes. It is compressed when a client first prefers that.

    Attributes:
        content: the uncompressed form.

    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        self._compressed: bytes | None = None
        self._lock = asyncio.Lock()

    async def answer(self, req: Request, resp: Response) -> None:
        """Respond with the form that the client prefers."""
        resp.append_header("Vary", "Accept-Encoding")
        resp.data = self.content
        is_large = len(self.content) >= COMPRESSED_BYTES_MIN
        if is_large and prefers_gzip(req.get_header("Accept-Encoding")):
            async with self._lock:
                if self._compressed is None:
                    self._compressed = await asyncio.to_thread(gzip.compress, self.content, mtime=0)
            resp.data = self._compressed
            resp.set_header("Content-Encoding", _ENCODING)


class Compressor:
    """Compresses responses that are not static."""

    def __init__(self, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting_bytes = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compress")

    async def answer(self, req: Request, resp: Response, content: bytes) -> None:
        """Respond with this content, compressed if it is large and the client prefers that."""
        resp.data = content
        if len(content) < COMPRESSED_BYTES_MIN:
            return
        resp.append_header("Vary", "Accept-Encoding")
        if prefers_gzip(req.get_header("Accept-Encoding")):
            compressed = await self.compress(content)
            if compressed is not None:
                resp.set_header("Content-Encoding", _ENCODING)
                resp.data = compressed

    async def compress(self, content: bytes) -> bytes | None:
        """Return the compressed content, or None if too many bytes wait already."""
        if self._waiting_bytes + len(content) > self._waiting_bytes_max:
            return None
        self._waiting_bytes += len(content)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, _compress, content)
        finally:
            self._waiting_bytes -= len(content)


def _compress(content: bytes) -> bytes:
    return zlib.compress(content, zlib.Z_BEST_SPEED, GZIP_WBITS)
