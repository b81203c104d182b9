"""The body of a request as a file that a thread reads while it arrives.

Theory of operation
-------------------
The parsers of CSV and JSON lines read a file. A thread runs them, and whenever they need more, the
thread waits until the event loop has received the next piece:

    thread: parser -> readinto -> (run on the event loop: receive a piece) -> the piece

So at most one piece is held, and while the thread is busy, nothing is received: the server stops
reading the socket, and the client has to wait.
"""

import asyncio
import gzip
import io
import zlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError
from typing import Any, Final

from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError

# Bytes that are read from the body at once.
PIECE_BYTES: Final = 64 * 1024

# A compressed body may become so many times as large, and so many bytes larger. A list of plants
# becomes about ten times as large.
INFLATION_MAX: Final = 200
INFLATED_BYTES_FREE: Final = 1024 * 1024


class Pace:
    """Refuses a client that sends too slowly.

    A client has `seconds` to send something. Each byte gives it more time, up to `seconds` again.
    Only the time in which the service waits for the client counts.

    Args:
        bytes_per_second_min: how many bytes must arrive per second, on average.
        seconds: how long a client may send nothing.
        clock: a time in seconds that is never set back.

    """

    def __init__(
        self, bytes_per_second_min: int, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._bytes_per_second_min = bytes_per_second_min
        self._seconds = seconds
        self._clock = clock
        self._left = seconds

    async def next(self, pieces: AsyncIterator[bytes]) -> bytes:
        """Return the next piece of a body; empty at its end.

        Raises:
            RequestError: REQUEST_TIMEOUT.

        """
        began = self._clock()
        try:
            async with asyncio.timeout(self._left):
                piece = await anext(pieces, b"")
        except TimeoutError:
            raise RequestError(
                ErrorCode.REQUEST_TIMEOUT,
                f"The body must arrive with {self._bytes_per_second_min} bytes per second",
            ) from None
        earned = len(piece) / self._bytes_per_second_min
        self._left = min(self._seconds, self._left - (self._clock() - began) + earned)
        return piece


class ArrivingFile(io.RawIOBase):
    """A body that is still arriving, as a file that another thread reads.

    Create it on the event loop, and close it there. A thread that reads it then gets an error.

    Args:
        pieces: of the body, as they arrive.
        pace: refuses a client that sends too slowly.

    Attributes:
        arrived_bytes: how many bytes were read.

    """

    def __init__(self, pieces: AsyncIterator[bytes], pace: Pace) -> None:
        self._pieces = pieces
        self._pace = pace
        self._loop = asyncio.get_running_loop()
        self._receiving: asyncio.Task[bytes] | None = None
        self._is_abandoned = False
        self._piece = memoryview(b"")
        self.arrived_bytes = 0

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` asks of a file that can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 (the signature of io)
        """Fill the buffer with what has arrived; wait if nothing has.

        Raises:
            RequestError: REQUEST_TIMEOUT; BAD_REQUEST if the body is truncated; or
                STORE_UNAVAILABLE after `abandon`.

        """
        if not self._piece:
            awaited = asyncio.run_coroutine_threadsafe(self._receive(), self._loop)
            try:
                self._piece = memoryview(awaited.result())
            except CancelledError:
                raise StoreUnavailableError(
                    "The service is stopping; sending the plants again is safe"
                ) from None
            self.arrived_bytes += len(self._piece)
        size = min(len(buffer), len(self._piece))
        buffer[:size] = self._piece[:size]
        self._piece = self._piece[size:]
        return size

    def abandon(self) -> None:
        """Give the thread an error instead of the next piece. Call it on the event loop."""
        self._is_abandoned = True
        if self._receiving is not None:
            self._receiving.cancel()

    async def _receive(self) -> bytes:
        if self._is_abandoned:
            raise asyncio.CancelledError
        self._receiving = asyncio.current_task()
        try:
            return await self._pace.next(self._pieces)
        finally:
            self._receiving = None


class InflatedFile(io.RawIOBase):
    """The content of a gzip file that may have been made to fill the memory or the disk."""

    def __init__(self, compressed: ArrivingFile) -> None:
        self._compressed = compressed
        self._inflated = gzip.GzipFile(fileobj=io.BufferedReader(compressed, PIECE_BYTES))
        self._size = 0

    def readable(self) -> bool:
        """Return True, as `io.RawIOBase` asks of a file that can be read."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 (the signature of io)
        """Fill the buffer.

        Raises:
            RequestError: BAD_REQUEST if this is not gzip, BODY_TOO_LARGE if it is a bomb.

        """
        try:
            size = self._inflated.readinto(buffer)
        except (gzip.BadGzipFile, zlib.error) as error:
            raise RequestError(ErrorCode.BAD_REQUEST, f"The body is not gzip: {error}") from error
        except EOFError as error:
            raise RequestError(ErrorCode.BAD_REQUEST, "The body broke off") from error
        self._size += size
        if self._size > INFLATED_BYTES_FREE + INFLATION_MAX * self._compressed.arrived_bytes:
            message = f"The body must not become more than {INFLATION_MAX} times as large"
            raise RequestError(ErrorCode.BODY_TOO_LARGE, message)
        return size
