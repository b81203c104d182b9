"""What a client prefers: compression (RFC 9110 §12.5.3) and more (RFC 7240).

Large responses are compressed with gzip for clients that accept it (RFC 9110 §8.4.1.3). Static
content is compressed once, for the first client. Other responses are compressed on one separate
thread, at the fastest level: a page of a thousand plants takes about a millisecond. So compression
does not block the event loop, and uses one core at most.

No compressed response contains a secret (docs/decisions/0015), because the size of a compressed
response reveals something about its content to observers of the network.
"""

import asyncio
import gzip
import re
import zlib
from typing import Final

from falcon.asgi import Request, Response

from plantstore.threads import THREADS, Threads

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


# Minimum size of a compressed response. Smaller responses fit into a few packets anyway.
COMPRESSED_BYTES_MIN: Final = 4 * 1024

# Bytes of responses that may wait to be compressed. Above it, responses are sent uncompressed,
# which is always allowed. Compressing 8 MiB takes a tenth of a second.
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024

_ENCODING: Final = "gzip"

# The element `gzip` of Accept-Encoding, with a weight above 0 or without one.
_GZIP: Final = re.compile(
    r"(?:^|,)[ \t]*gzip[ \t]*(?:;[ \t]*q=(?:1(?:\.0{0,3})?|0\.(?!0+(?!\d))\d{1,3})[ \t]*)?(?:,|$)",
    re.IGNORECASE,
)

# For zlib: a window of 2^15 bytes, in the format of gzip.
_GZIP_WBITS: Final = 16 + 15


def accepts_gzip(req: Request) -> bool:
    """Return whether a client names gzip as a coding that it accepts (RFC 9110 §12.5.3)."""
    return _GZIP.search(req.get_header("Accept-Encoding") or "") is not None


class StaticContent:
    """Content that never changes. It is compressed when a client first accepts that.

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
        if is_large and accepts_gzip(req):
            async with self._lock:
                if self._compressed is None:
                    self._compressed = await asyncio.to_thread(gzip.compress, self.content, mtime=0)
            resp.data = self._compressed
            resp.set_header("Content-Encoding", _ENCODING)


class Compressor:
    """Compresses responses that are not static."""

    def __init__(
        self, waiting_bytes_max: int = WAITING_BYTES_MAX, threads: Threads = THREADS
    ) -> None:
        self._waiting_bytes_max = waiting_bytes_max
        self._waiting_bytes = 0
        self._executor = threads.pool(1, "compress")

    async def answer(self, req: Request, resp: Response, content: bytes) -> None:
        """Respond with this content, compressed if it is large and the client accepts that."""
        resp.data = content
        if len(content) < COMPRESSED_BYTES_MIN:
            return
        resp.append_header("Vary", "Accept-Encoding")
        if accepts_gzip(req):
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
    return zlib.compress(content, zlib.Z_BEST_SPEED, _GZIP_WBITS)
