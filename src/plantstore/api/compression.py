"""gzip for large answers to the clients that accept it (RFC 9110 §8.4.1.3, §12.5.3).

What never changes is compressed once. What is made for a request is compressed on one thread
of its own, at the fastest level: a page of a thousand plants takes about a millisecond. So the
event loop does not wait for it, and it takes one core at most.

Nothing that is compressed here holds a secret (docs/decisions/0048): the size of a compressed
answer tells something of its content to those who see it pass.
"""

import asyncio
import functools
import gzip
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from falcon.asgi import Request, Response

# Smaller answers fit into a few packets, and hardly gain from it.
COMPRESSED_BYTES_MIN: Final = 4 * 1024

# Bytes of answers that may wait to be compressed. Past it, answers are sent as they are, which
# is always allowed. Compressing so many takes a tenth of a second.
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024

# As much of an Accept-Encoding field as is read. Browsers send 30 characters.
ACCEPT_ENCODING_CHARACTERS_MAX: Final = 1024

_ENCODING: Final = "gzip"

# An element: a coding with its weight, or nothing.
_ELEMENT: Final = re.compile(
    r"(?:([\w!#$%&'*+.^`|~-]+)[ \t]*(?:;[ \t]*q=(0(?:\.\d{0,3})?|1(?:\.0{0,3})?))?)?",
    re.ASCII | re.IGNORECASE,
)

# For zlib: a window of 2^15 bytes, in the format of gzip.
_GZIP_WBITS: Final = 16 + 15


@functools.lru_cache(maxsize=64)
def prefers_gzip(accept_encoding: str | None) -> bool:
    """Tell whether a client accepts gzip, and likes it at least as much as no coding.

    A field that is absent, malformed or very long asks for nothing.
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
            # x-gzip is another name of it (§8.4.1.3).
            name = coding.lower().removeprefix("x-")
            weights[name] = max(weights.get(name, 0.0), float(weight or 1))
    # What is not named has the weight of `*`; without one, gzip is not accepted, and no coding
    # is, but less than whatever is named.
    gzip_weight = weights.get(_ENCODING, weights.get("*", 0.0))
    return gzip_weight > 0 and gzip_weight >= weights.get("identity", 0.0)


class StaticContent:
    """Content that never changes, and the same compressed.

    Attributes:
        content: as it is.

    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        is_large = len(content) >= COMPRESSED_BYTES_MIN
        self._compressed = gzip.compress(content, mtime=0) if is_large else None

    def answer(self, req: Request, resp: Response) -> None:
        """Answer with the form that the client prefers.

        Where there is an ETag, each form has its own (RFC 9110 §8.8.3.3).
        """
        resp.append_header("Vary", "Accept-Encoding")
        if self.is_compressed_for(req):
            resp.set_header("Content-Encoding", _ENCODING)
            resp.data = self._compressed
        else:
            resp.data = self.content

    def is_compressed_for(self, req: Request) -> bool:
        """Tell whether the client gets the compressed form."""
        return self._compressed is not None and prefers_gzip(req.get_header("Accept-Encoding"))


class Compressor:
    """Compresses answers that are made for their requests."""

    def __init__(self, waiting_bytes_max: int = WAITING_BYTES_MAX) -> None:
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting_bytes = 0
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="compress")

    async def answer(self, req: Request, resp: Response, content: bytes) -> None:
        """Answer with this content, compressed if it is large and the client prefers that."""
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
        """Return the content compressed, or None if too much waits for that already."""
        if self._waiting_bytes + len(content) > self._waiting_bytes_max:
            return None
        self._waiting_bytes += len(content)
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._executor, _compress, content)
        finally:
            self._waiting_bytes -= len(content)


def _compress(content: bytes) -> bytes:
    return zlib.compress(content, zlib.Z_BEST_SPEED, _GZIP_WBITS)
