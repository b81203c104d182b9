"""A connection to a worker, as the process that writes sees it. It never blocks."""

import contextlib
import socket
from typing import Final

from plantstore.shared_writer.messages import (
    LENGTH_BYTES,
    Response,
    length_of,
    to_bytes,
)

# How much is read at once.
_READ_BYTES: Final = 256 * 1024

_NOTHING: Final = memoryview(b"")


class Connection:
    """Receives a request, sends the response, and so on.

    Args:
        stream: the socket of the connection.

    """

    def __init__(self, stream: socket.socket) -> None:
        stream.settimeout(0)
        self.socket = stream
        self._received = bytearray()
        self._unsent = _NOTHING

    @property
    def is_sending(self) -> bool:
        """Whether a part of the response is not sent yet."""
        return bool(self._unsent)

    def receive(self) -> bytes | None:
        """Read what has arrived; return the body of the request once it is complete.

        Raises:
            OSError: the worker has closed the connection.
            ProtocolError: the request is too long.

        """
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionResetError("The connection was closed")
        self._received += data
        head = self._received[:LENGTH_BYTES]
        if len(head) < LENGTH_BYTES or len(self._received) < LENGTH_BYTES + length_of(head):
            return None
        body = bytes(self._received[LENGTH_BYTES:])  # a worker sends one request at a time
        self._received.clear()
        return body

    def send(self, message: Response) -> None:
        """Send a response, or the beginning of it. Then `flush` sends the rest.

        Raises:
            OSError: the worker has closed the connection.

        """
        self._unsent = memoryview(to_bytes(message))
        self.flush()

    def flush(self) -> None:
        """Send more of the response.

        Raises:
            OSError: the worker has closed the connection.

        """
        with contextlib.suppress(BlockingIOError):
            self._unsent = self._unsent[self.socket.send(self._unsent) :]
        if not self._unsent:
            self._unsent = _NOTHING  # an empty part of the response would keep its memory
