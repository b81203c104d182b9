"""The process that writes: it commits what all workers send, together.

One thread does everything. While it commits, further batches arrive in the buffers of the sockets;
then it reads them all, and applies them in one transaction. Two threads would take the interpreter
lock from each other several times per transaction.

If the store refuses joined batches, each half of them is applied again, so that no worker affects
another one. If it refuses the batch of one worker, that worker gets the error, and sends each half
of its batch again.
"""

import contextlib
import selectors
import socket
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from plantstore.batches import IDLE_SECONDS
from plantstore.changes import Change
from plantstore.halving import run_by_halves
from plantstore.observe import Committed, Observer, SharedWriterStarted
from plantstore.shared_writer.connection import Connection
from plantstore.shared_writer.messages import (
    Applied,
    Apply,
    Failed,
    HandedOut,
    HandOut,
    ProtocolError,
    Ready,
    Request,
    Response,
    parse_request,
)
from plantstore.store import PlantWrites

# Maximum length of the batches in one transaction, in bytes, unless a single one is longer. A usual
# create has 40 bytes. This limits how long a worker waits for the batches of the others.
TRANSACTION_BYTES_MAX: Final = 1024 * 1024


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
        self._patience = IDLE_SECONDS  # a crash may have left work for `tidy`
        self._is_stopping = False
        self._alarm, self._alarmed = socket.socketpair()

    def serve(self, listener: socket.socket) -> None:
        """Serve connections.

        Args:
            listener: the socket; it listens already, and its owner closes it.

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
        """Read what has arrived, and commit; or tidy, if nothing arrives."""
        ready = self._selector.select(0 if self._batches else self._patience)
        if not ready and not self._batches:
            self._tidy()
            return
        self._patience = IDLE_SECONDS
        for key, _ in ready:
            if key.fileobj is listener:
                self._accept(listener)
            elif key.fileobj is self._alarmed:
                self._alarmed.recv(1)
            else:
                self._continue(key.data)
        if self._batches:
            self._commit()

    def _tidy(self) -> None:
        self._patience = IDLE_SECONDS
        with contextlib.suppress(Exception):
            self._patience = self._store.tidy()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the worker has ended
            connection = Connection(listener.accept()[0])
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
            if body is not None:
                self._run(connection, parse_request(body), len(body))
        except (OSError, ProtocolError, MemoryError):
            self._end(connection)

    def _run(self, connection: Connection, request: Request, length: int) -> None:
        """Run a request; a batch only waits for the commit."""
        if isinstance(request, Apply):
            self._batches.append(_Batch(connection, request.changes, length))
            return
        try:
            if isinstance(request, HandOut):
                ids = self._store.hand_out_ids(request.count)
                response: Response = HandedOut(ids[0], ids[-1])
            else:
                self._store.probe()
                response = Ready()
        except Exception as error:  # noqa: BLE001 (the worker decides)
            response = Failed.of(error)
        self._send(connection, response)

    def _commit(self) -> None:
        """Apply the batches that were sent first, and send the results."""
        batches: list[_Batch] = []
        length = 0
        while self._batches and (
            not batches or length + self._batches[0].length <= TRANSACTION_BYTES_MAX
        ):
            batches.append(self._batches.popleft())
            length += batches[-1].length
        results = run_by_halves(self._apply, batches, lambda error, _batches: Failed.of(error))
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
        except OSError:
            self._end(connection)

    def _wait_for(self, connection: Connection) -> None:
        """Wait until more can be sent to the worker, or for its next request."""
        event = selectors.EVENT_WRITE if connection.is_sending else selectors.EVENT_READ
        self._selector.modify(connection.socket, event, connection)

    def _end(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.remove(connection)
            self._selector.unregister(connection.socket)
            connection.socket.close()
