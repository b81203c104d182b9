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
lock from each other several times per transaction. What a worker requests besides changes waits
for the transaction.

If the store refuses joined batches, each is applied by itself, so that no worker affects another
one. If it refuses the batch of one worker, that worker gets the error, and sends each change again.
"""

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from plantstore.changes import Change
from plantstore.commit.batcher import IDLE_SECONDS, run_each_if_refused
from plantstore.commit.messages import (
    LENGTH_BYTES,
    Applied,
    Apply,
    Failed,
    HandedOut,
    HandOut,
    Probe,
    ProtocolError,
    Ready,
    Request,
    Response,
    length_of,
    parse_request,
    to_bytes,
)
from plantstore.observe import Committed, Observer, SharedWriterStarted
from plantstore.store import PlantWrites

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


# Maximum length of the batches in one transaction, in bytes, unless a single one is longer. A usual
# create has 40 bytes. This limits how long a worker waits for the batches of the others.
TRANSACTION_BYTES_MAX: Final = 1024 * 1024

# A long request arrives in pieces, because its worker waits until each has been read. How long a
# commit waits for the next piece, and for all of them.
PIECE_SECONDS: Final = 0.005
PIECES_SECONDS: Final = 0.05


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
        self._receiving: set[Connection] = set()
        self._batches: deque[_Batch] = deque()
        self._others: list[tuple[Connection, HandOut | Probe]] = []
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
        """Read what has arrived, commit, and then do what else was requested; or tidy."""
        left = self._tidy_at - time.monotonic()
        self._read(listener, 0 if self._batches else max(0, left))
        deadline = time.monotonic() + PIECES_SECONDS
        while self._receiving and time.monotonic() < deadline:
            if not self._read(listener, PIECE_SECONDS):
                break
        if self._batches:
            self._commit()
        if self._others:
            self._respond_to_others()
        if not self._batches and time.monotonic() >= self._tidy_at:
            self._tidy()

    def _read(self, listener: socket.socket, seconds: float) -> bool:
        """Read what arrives within some seconds. Return whether there was anything."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            if key.fileobj is listener:
                self._accept(listener)
            elif key.fileobj is self._alarmed:
                self._alarmed.recv(1)
            else:
                self._continue(key.data)
        return bool(ready)

    def _tidy(self) -> None:
        patience = IDLE_SECONDS
        with contextlib.suppress(Exception):
            patience = self._store.tidy()
        self._tidy_at = time.monotonic() + patience

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the worker has ended
            _, descriptors, _, _ = socket.recv_fds(listener, 1, 1)
            for descriptor in descriptors:  # none if too many files are open
                connection = Connection(socket.socket(fileno=descriptor))
                self._connections.add(connection)
                self._selector.register(connection.socket, selectors.EVENT_READ, connection)
                self._send(connection, Ready())

    def _continue(self, connection: Connection) -> None:
        """Send the rest of a response, or receive more of a request."""
        try:
            if connection.is_sending:
                connection.flush()
                self._wait_for(connection)
                return
            body = connection.receive()
            if body is None:
                self._receiving.add(connection)
            else:
                self._receiving.discard(connection)
                self._take(connection, parse_request(body), len(body))
        except (OSError, ProtocolError, MemoryError):
            self._end(connection)

    def _take(self, connection: Connection, request: Request, length: int) -> None:
        if isinstance(request, Apply):
            self._batches.append(_Batch(connection, request.changes, length))
        else:
            self._others.append((connection, request))

    def _respond_to_others(self) -> None:
        """Hand out ids, and probe once for all who asked."""
        others, self._others = self._others, []
        probed: Response | None = None
        for connection, request in others:
            if isinstance(request, HandOut):
                response = self._outcome(partial(self._hand_out, request.count))
            else:
                response = probed = probed or self._outcome(self._probe)
            self._send(connection, response)

    def _outcome(self, run: Callable[[], Response]) -> Response:
        try:
            return run()
        except Exception as error:  # noqa: BLE001 (the worker decides)
            return Failed.of(error)

    def _hand_out(self, count: int) -> HandedOut:
        ids = self._store.hand_out_ids(count)
        return HandedOut(ids[0], ids[-1])

    def _probe(self) -> Ready:
        self._store.probe()
        return Ready()

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
            connection.send(message)
            if connection.is_sending:
                self._wait_for(connection)
        except (OSError, MemoryError):
            self._end(connection)

    def _wait_for(self, connection: Connection) -> None:
        """Wait until more can be sent to the worker, or for its next request."""
        event = selectors.EVENT_WRITE if connection.is_sending else selectors.EVENT_READ
        self._selector.modify(connection.socket, event, connection)

    def _end(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._receiving.discard(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()
