"""The writer of several workers, on a thread of the test."""

import contextlib
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from plantstore.changes import Change, Result
from plantstore.commit.remote_writer import RemoteWriter
from plantstore.commit.writer_process import WriterService, listen
from plantstore.observe import Observer, ignore
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.store import PlantWrites


@contextlib.contextmanager
def writing(store: PlantWrites, observe: Observer = ignore) -> Iterator[socket.socket]:
    """Write for workers while the block runs, and until they are closed. Yield the entrance."""
    listener, entrance = listen()
    with listener, entrance, serving(store, listener, observe):
        yield entrance


@contextlib.contextmanager
def serving(
    store: PlantWrites, listener: socket.socket, observe: Observer = ignore
) -> Iterator[None]:
    """Write for the workers that connect to a listener, as one process that writes."""
    service = WriterService(store, observe)
    thread = threading.Thread(target=service.serve, args=(listener,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        service.stop()
        thread.join()


class StoreOfWorker(SQLiteStore):
    """A store that reads by itself, and writes through another store of the same file."""

    def __init__(self, file: Path) -> None:
        self._opened = contextlib.ExitStack()
        store = self._opened.enter_context(contextlib.closing(SQLiteStore(str(file))))
        entrance = self._opened.enter_context(writing(store))
        self._remote = self._opened.enter_context(contextlib.closing(RemoteWriter(entrance)))
        super().__init__(str(file))

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        return self._remote.apply_changes(changes)

    def hand_out_ids(self, count: int) -> range:
        return self._remote.hand_out_ids(count)

    def probe(self) -> None:
        self._remote.probe()

    def close(self) -> None:
        super().close()
        self._opened.close()
