"""The side of a worker: it sends what is to be written to the process that writes.

If that process ends, its parent starts another one, and requests wait meanwhile: the parent keeps
the socket to which workers connect. Only what the process had received, and not answered, is in
doubt.
"""

import socket
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Final, TypeVar

import msgspec

from plantstore.changes import Change, Result
from plantstore.commit.messages import (
    MALFORMED,
    MESSAGE_BYTES_MAX,
    Applied,
    Failed,
    HandedOut,
    HandOut,
    Probe,
    Ready,
    Request,
    Response,
    apply_message,
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

# What an exchange raises if the other process ends in it, or sends no message.
_BROKEN: Final = (OSError, EOFError, *MALFORMED)

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
                response = self._receive(expected)
            except BaseException as error:
                self.close()  # a later request must not get this response
                if isinstance(error, _BROKEN):
                    raise StoreUnavailableError(_ENDED, str(error)) from error
                raise
        if isinstance(response, Failed):
            raise response.error
        return response

    def close(self) -> None:
        """Close the connection. The next request opens another one."""
        self._connection.close()

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send_bytes(message)
        except OSError:
            # The other process has ended. It got a part of the message at most.
            self.close()
            self._connect()
            try:
                self._connection.send_bytes(message)
            except OSError as error:
                self.close()
                raise StoreUnreachableError(_NOT_REACHED, str(error)) from error

    def _connect(self) -> None:
        """Connect, and wait for the greeting. Repeat this if a process ends meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            ours, theirs = socket.socketpair()
            self._connection = Connection(ours.detach())
            try:
                with theirs:
                    socket.send_fds(self._entrance, [b"+"], [theirs.fileno()])
                if not self._connection.poll(max(0, deadline - time.monotonic())):
                    raise TimeoutError("It did not accept the connection in time")
                self._receive(Ready)
            except _BROKEN as error:
                self.close()
                has_ended = isinstance(error, EOFError | ConnectionResetError)
                if not has_ended or time.monotonic() >= deadline:
                    raise StoreUnreachableError(_NOT_REACHED, str(error)) from error
            else:
                return

    def _receive(self, expected: type[ResponseT]) -> ResponseT | Failed:
        response = parse_response(self._connection.recv_bytes(MESSAGE_BYTES_MAX))
        if not isinstance(response, expected | Failed):
            raise msgspec.ValidationError(f"Another response than {expected.__name__}")
        return response
