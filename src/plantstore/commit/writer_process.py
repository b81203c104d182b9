"""One process that writes the plants, for all processes that serve them.

SQLite allows one writer at a time. Several processes that write one file poll for its lock, and
mostly wait. So with several workers, one more process writes. Each worker sends it batches of
changes through a local socket (`remote_writer`), and the process commits what all workers
have sent together.

The sockets have no address. So other users cannot write plants through them without a token, and
no cleaner of temporary files can remove them. Instead of an address, the processes inherit the two
ends of a pair of sockets. To connect, a worker makes another pair, and sends one end of it to the
process that writes, as a file descriptor (SCM_RIGHTS in unix(7)).

One thread does everything. While it commits, further batches arrive in the buffers of the sockets;
then it reads them all, and applies them in one transaction. Two threads would take the interpreter
lock from each other several times per transaction. What a worker requests besides changes is done
when it is read. Reads and writes block, since a worker sends and reads each message at once. One
that does not is disconnected after STALLED_SECONDS.

If the store refuses joined batches, each is applied by itself, so that no worker affects another
one. If it refuses the batch of one worker, that worker gets the error, and sends each change again.
"""

import contextlib
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from multiprocessing.connection import Connection
from typing import Final, NamedTuple

from plantstore.changes import Change
from plantstore.commit.batcher import IDLE_SECONDS, run_each_if_refused
from plantstore.commit.messages import (
    MALFORMED,
    MESSAGE_BYTES_MAX,
    Applied,
    Apply,
    Failed,
    HandedOut,
    HandOut,
    Probe,
    Ready,
    Response,
    parse_request,
    to_bytes,
)
from plantstore.observe import Committed, Observer, SharedWriterStarted
from plantstore.store import PlantWrites

# Maximum length of the batches in one transaction, in bytes, unless a single one is longer. A usual
# create has 40 bytes. This limits how long a worker waits for the batches of the others.
TRANSACTION_BYTES_MAX: Final = 1024 * 1024

# A message that is longer than the buffer of a socket needs both processes at once. How long the
# process that writes waits for a worker that has stopped in such a message.
STALLED_SECONDS: Final = 5
_STALLED: Final = struct.pack("ll", STALLED_SECONDS, 0)  # a `timeval`: socket(7)


def listen() -> tuple[socket.socket, socket.socket]:
    """Return the socket that receives the connections of workers, and the one that takes them.

    The process that writes gets the first one, and the workers get the second one. The caller keeps
    both, so connections wait while another process that writes is started.
    """
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Batch(NamedTuple):
    """The changes that a worker has sent, and their length in bytes."""

    connection: Connection
    changes: Sequence[Change]
    length: int


class WriterService:
    """Serves the connections of the workers, until it is told to stop and no connection is left.

    Args:
        store: where the changes go. The caller closes it afterwards.
        observe: gets the events.

    """

    def __init__(self, store: PlantWrites, observe: Observer) -> None:
        self._store = store
        self._observe = observe
        self._selector = selectors.DefaultSelector()
        self._connections: set[Connection] = set()
        self._batches: deque[_Batch] = deque()
        self._tidy_at = time.monotonic() + IDLE_SECONDS  # a crash may have left work
        self._is_stopping = False
        self._alarm, self._alarmed = socket.socketpair()
        self._alarm.settimeout(0)

    def serve(self, listener: socket.socket) -> None:
        """Serve connections.

        Args:
            listener: receives them; its owner closes it.

        """
        listener.settimeout(0)
        with self._selector, self._alarm, self._alarmed:
            self._selector.register(listener, selectors.EVENT_READ)
            self._selector.register(self._alarmed, selectors.EVENT_READ)
            self._observe(SharedWriterStarted())
            while self._connections or not self._is_stopping:
                self._take_turn(listener)

    def stop(self) -> None:
        """End once no worker is connected. Until then, the workers may finish their requests.

        Any thread and any signal handler may call this.
        """
        self._is_stopping = True
        with contextlib.suppress(OSError):  # it has ended
            self._alarm.send(b"!")

    def _take_turn(self, listener: socket.socket) -> None:
        """Read what has arrived, and commit; or tidy."""
        left = self._tidy_at - time.monotonic()
        self._read(listener, 0 if self._batches else max(0, left))
        if self._batches:
            self._commit()
        if not self._batches and time.monotonic() >= self._tidy_at:
            self._tidy()

    def _read(self, listener: socket.socket, seconds: float) -> None:
        """Read what arrives within some seconds."""
        for key, _ in self._selector.select(seconds):
            if key.fileobj is listener:
                self._accept(listener)
            elif key.fileobj is self._alarmed:
                self._alarmed.recv(1)
            else:
                self._receive(key.data)

    def _tidy(self) -> None:
        patience = IDLE_SECONDS
        with contextlib.suppress(Exception):
            patience = self._store.tidy()
        self._tidy_at = time.monotonic() + patience

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the worker has ended
            _, descriptors, _, _ = socket.recv_fds(listener, 1, 1)
            for descriptor in descriptors:  # none if too many files are open
                with socket.socket(fileno=descriptor) as stream:
                    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
                        stream.setsockopt(socket.SOL_SOCKET, option, _STALLED)
                    connection = Connection(stream.detach())
                self._connections.add(connection)
                self._selector.register(connection, selectors.EVENT_READ, connection)
                self._send(connection, Ready())

    def _receive(self, connection: Connection) -> None:
        try:
            body = connection.recv_bytes(MESSAGE_BYTES_MAX)
            request = parse_request(body)
            if isinstance(request, Apply):
                self._batches.append(_Batch(connection, request.changes, len(body)))
            else:
                self._send(connection, self._respond(request))
        except (OSError, EOFError, MemoryError, *MALFORMED):
            self._end(connection)

    def _respond(self, request: HandOut | Probe) -> Response:
        try:
            if isinstance(request, HandOut):
                ids = self._store.hand_out_ids(request.count)
                return HandedOut(ids[0], ids[-1])
            self._store.probe()
            return Ready()
        except Exception as error:  # noqa: BLE001 (the worker decides)
            return Failed.of(error)

    def _commit(self) -> None:
        """Apply the batches that were sent first, and send the results."""
        batches: list[_Batch] = []
        length = 0
        while self._batches and (
            not batches or length + self._batches[0].length <= TRANSACTION_BYTES_MAX
        ):
            batches.append(self._batches.popleft())
            length += batches[-1].length
        self._tidy_at = time.monotonic() + IDLE_SECONDS
        results = run_each_if_refused(
            self._apply, batches, lambda error, _batches: Failed.of(error)
        )
        for batch, result in zip(batches, results, strict=True):
            self._send(batch.connection, result)

    def _apply(self, batches: Sequence[_Batch]) -> list[Applied]:
        changes = [change for batch in batches for change in batch.changes]
        began = time.perf_counter()
        outcomes = self._store.apply_changes(changes)
        self._observe(Committed(outcomes, time.perf_counter() - began))
        rest = iter(outcomes)
        return [Applied([*islice(rest, len(batch.changes))]) for batch in batches]

    def _send(self, connection: Connection, message: Response) -> None:
        try:
            connection.send_bytes(to_bytes(message))
        except (OSError, MemoryError):
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._selector.unregister(connection)
            connection.close()
