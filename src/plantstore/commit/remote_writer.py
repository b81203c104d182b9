"""The side of a worker: it sends what is to be written to the process that writes.

If that process ends, its parent starts another one, and requests wait meanwhile: the parent keeps
the socket to which workers connect. Only what the process had received, and not answered, is in
doubt.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import Final, TypeVar

from plantstore.changes import Change, Result
from plantstore.commit.messages import (
    LENGTH_BYTES,
    Applied,
    Failed,
    HandedOut,
    HandOut,
    Probe,
    ProtocolError,
    Ready,
    Request,
    Response,
    apply_message,
    length_of,
    parse_response,
    to_bytes,
)
from plantstore.errors import StoreUnavailableError, StoreUnreachableError

# How long a connection waits for the process that writes, which may have to open the store first.
PATIENCE_SECONDS: Final = 10.0

# Nothing is left to do here while idle: the process that writes does it.
_NEVER: Final = threading.TIMEOUT_MAX

_NOT_REACHED: Final = "The process that writes cannot be reached"
_ENDED: Final = "The process that writes has ended"

ResponseT = TypeVar("ResponseT", bound=Response)


class RemoteWriter:
    """Writes plants through another process, as `PlantWrites` promises.

    Args:
        entrance: takes the connections to it. Its owner closes it.

    Raises:
        StoreUnreachableError: no process accepts connections.

    """

    def __init__(self, entrance: socket.socket) -> None:
        entrance.settimeout(PATIENCE_SECONDS)
        # Ids and probes do not wait until the response to a batch has arrived.
        self._changes = _Channel(entrance)
        self._others = _Channel(entrance)

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        """Apply a batch of changes, together with those of other workers."""
        applied = self._changes.ask(apply_message(changes), Applied)
        if len(applied.results) != len(changes):
            raise StoreUnavailableError("The process that writes has not sent all results")
        return applied.results

    def tidy(self) -> float:
        """Do nothing."""
        return _NEVER

    def hand_out_ids(self, count: int) -> range:
        """Return ids that nobody else gets."""
        ids = self._others.ask(HandOut(count), HandedOut)
        return range(ids.first, ids.last + 1)

    def probe(self) -> None:
        """Check that the other process can write."""
        self._others.ask(Probe(), Ready)

    def close(self) -> None:
        """Close the connections, so that the other process may end."""
        self._changes.close()
        self._others.close()


class _Channel:
    """A connection to the process that writes. Any thread may use it; one at a time."""

    def __init__(self, entrance: socket.socket) -> None:
        self._entrance = entrance
        self._lock = threading.Lock()
        self._connect()

    def ask(self, request: Request, expected: type[ResponseT]) -> ResponseT:
        """Send a request, and return the response.

        Raises:
            StoreUnreachableError: the other process did not get the request.
            StoreUnavailableError: it ended before it responded.
            Exception: the error of its store.

        """
        message = to_bytes(request)
        with self._lock:
            self._send(message)
            try:
                response = self._receive()
                if not isinstance(response, expected | Failed):
                    raise ProtocolError(f"Another response than {expected.__name__}")  # noqa: TRY301
            except BaseException as error:
                self.close()  # a later request must not get this response
                if isinstance(error, OSError | ProtocolError):
                    raise StoreUnavailableError(_ENDED, str(error)) from error
                raise
        if isinstance(response, Failed):
            raise response.error
        return response

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        with contextlib.suppress(OSError):
            self._responses.close()
        self._socket.close()

    def _send(self, message: bytes) -> None:
        try:
            self._socket.sendall(message)
        except OSError:
            # The other process has ended. It got a part of the message at most.
            self.close()
            self._connect()
            try:
                self._socket.sendall(message)
            except OSError as error:
                self.close()
                raise StoreUnreachableError(_NOT_REACHED, str(error)) from error

    def _connect(self) -> None:
        """Connect, and wait for the greeting. Repeat this if a process ends meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._is_greeted(deadline):
            pass

    def _is_greeted(self, deadline: float) -> bool:
        self._socket, theirs = socket.socketpair()
        self._responses = self._socket.makefile("rb")
        try:
            with theirs:
                socket.send_fds(self._entrance, [b"+"], [theirs.fileno()])
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            self._receive()
            self._socket.settimeout(None)
        except (OSError, ProtocolError) as error:
            self.close()
            if isinstance(error, ConnectionResetError) and time.monotonic() < deadline:
                return False
            raise StoreUnreachableError(_NOT_REACHED, str(error)) from error
        return True

    def _receive(self) -> Response:
        head = self._responses.read(LENGTH_BYTES)
        if len(head) < LENGTH_BYTES:
            raise ConnectionResetError("The connection was closed")
        length = length_of(head)
        body = self._responses.read(length)
        if len(body) < length:
            raise ConnectionResetError("The connection was closed in a message")
        return parse_response(body)
