"""Compresses large responses with gzip for clients that accept it (RFC 9110 §8.4.1.3, §12.5.3).

Static content is compressed once. Other responses are compressed on one separate thread, at the
fastest level: a page of a thousand plants takes about a millisecond. So compression does not
block the event loop, and uses one core at most.

No compressed response contains a secret (docs/decisions/0015), because the size of a compressed
response reveals something about its content to observers of the network.
"""

import asyncio
import functools
import gzip
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from falcon.asgi import Request, Response

# Minimum size of a compressed response. Smaller responses fit into a few packets anyway.
COMPRESSED_BYTES_MIN: Final = 4 * 1024

# Bytes of responses that may wait to be compressed. Above it, responses are sent uncompressed,
# which is always allowed. Compressing 8 MiB takes a tenth of a second.
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024

# Maximum length of an Accept-Encoding field. A longer one is ignored. Browsers send 30
# characters.
ACCEPT_ENCODING_CHARACTERS_MAX: Final = 1024

_ENCODING: Final = "gzip"

# An element of the field: a coding with its weight, or nothing.
_ELEMENT: Final = re.compile(
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
        match = _ELEMENT.fullmatch(element.strip(" \t"))
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
    """Content that never changes, with its compressed form.

    Attributes:
        content: the uncompressed form.

    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        is_large = len(content) >= COMPRESSED_BYTES_MIN
        self._compressed = gzip.compress(content, mtime=0) if is_large else None

    def answer(self, req: Request, resp: Response) -> None:
        """Respond with the form that the client prefers."""
        resp.append_header("Vary", "Accept-Encoding")
        if self._compressed is not None and prefers_gzip(req.get_header("Accept-Encoding")):
            resp.set_header("Content-Encoding", _ENCODING)
            resp.data = self._compressed
        else:
            resp.data = self.content


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
