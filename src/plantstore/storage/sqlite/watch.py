"""Checks that the files of an open database are intact, and still at the database's path.

SQLite keeps its files open, and does not notice when one of them is deleted, moved, replaced or
truncated. It would continue to commit to files that no other process can find. Or another
process would open the new files, and overwrite these commits. So the files are checked before
and after each change. The check before a change prevents writes to a log that another process
may use with a different -shm file. The check after it makes sure that the next start will find
the change.

A full check makes several system calls. Each of them releases the interpreter lock and has to
wait for the event loop to get it back. So a short check is enough while changes follow each
other: it reads only the modification time of the folder and the header of the log. A full check
follows if one of them has changed.

If the files are wrong, no checkpoint is made, not even when the database is closed. A checkpoint
could copy frames of one log into another database, and SQLite deletes the log by its name. There
is one exception: if only the log was deleted, this process still has it open, and a checkpoint
saves its content.
"""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.sqlite.log_frames import LogFrames

# How long after a full check a short check is enough.
FRESH_SECONDS: Final = 0.1

# File times have the resolution of the kernel's tick, which is ten milliseconds at most.
_TICK_NANOSECONDS: Final = 20_000_000

_SUFFIXES: Final = ("", "-wal", "-shm")


class _State(NamedTuple):
    """A problem with the files."""

    problem: str
    is_log_lost: bool = False
    """The log was deleted or moved, and the other files are right."""


class _Mark(NamedTuple):
    """The part of a folder's state that changes when a file in it is made, deleted or moved."""

    device: int
    inode: int
    changed_at: int


class Watch:
    """Knows the files of an open database by device and inode.

    Any thread may call the methods, with a connection that the thread may use.

    Args:
        path: of the database, without symbolic links.
        connection: a connection that has the files open.
        wait: is called with the number of times that the log was busy. It waits, and returns
            whether to try again.
        monotonic: a clock in seconds that never goes back.

    Raises:
        FileNotFoundError: one of the files does not exist.

    """

    def __init__(
        self,
        path: str,
        connection: apsw.Connection,
        wait: Callable[[int], bool],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._paths = [f"{path}{suffix}" for suffix in _SUFFIXES]
        self._wait = wait
        self._monotonic = monotonic
        self._folder = str(Path(path).parent)
        self._known: tuple[_Mark, bytes] | None = None
        self._checked_at = -math.inf
        self._log = LogFrames(f"{path}-wal", connection.pragma("page_size"), wait)
        try:
            found = self._stat()
        except FileNotFoundError:
            self._log.close()
            raise
        self._files = [(file.st_dev, file.st_ino) for file in found]
        self._database_bytes, _, self._index_bytes = (file.st_size for file in found)

    @contextlib.contextmanager
    def over(self, connection: apsw.Connection) -> Iterator[None]:
        """Check the files before and after the transaction in the block.

        Raises:
            StoreUnreachableError: the files were wrong before. The block was not run.
            StoreUnavailableError: the files are wrong after the block.

        """
        if self._monotonic() - self._checked_at > FRESH_SECONDS or not self._is_unchanged():
            self.insist(connection, StoreUnreachableError)
        yield
        if not self._is_unchanged():
            self.insist(connection, StoreUnavailableError)

    def _is_unchanged(self) -> bool:
        """Do the short check: compare the folder and the header of the log with the known state.

        The folder changes when a file in it is deleted, moved or replaced. A log that is
        truncated to size 0 loses its header.
        """
        return self._known == (_mark(self._folder), self._log.header())

    def insist(
        self,
        connection: apsw.Connection,
        error: type[StoreUnavailableError] = StoreUnavailableError,
    ) -> None:
        """Do the full check, and raise an error if the files are wrong.

        The connection must not be in a transaction.
        """
        now, mark = time.time_ns(), _mark(self._folder)
        header = self._log.header()
        state = self._state(connection)
        if state is None:
            self._checked_at = self._monotonic()
            # A folder that has just changed may change again without getting a later time.
            self._known = (mark, header) if now - mark.changed_at > _TICK_NANOSECONDS else None
            return
        if state.is_log_lost:
            with contextlib.suppress(apsw.Error):  # the error below says what is wrong
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        raise error(state.problem)

    def insist_on_names(self) -> None:
        """Raise StoreUnavailableError if a new connection would open other files."""
        if state := self._lost():
            raise StoreUnavailableError(state.problem)

    def close(self, connections: Sequence[apsw.Connection]) -> None:
        """Close the connections. Checkpoint only if the files are right."""
        try:
            state = self._state(connections[0])
            is_right = state is None or state.is_log_lost
        except (OSError, apsw.Error):
            is_right = False
        for connection in connections:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not is_right))
        for connection in connections:
            connection.close()
        self._log.close()

    def _stat(self) -> list[os.stat_result]:
        return [os.stat(path) for path in self._paths]  # noqa: PTH116 (twice as fast as Path)

    def _state(self, connection: apsw.Connection) -> _State | None:
        try:
            found = self._stat()
        except FileNotFoundError:
            return self._lost()
        if [(file.st_dev, file.st_ino) for file in found] != self._files:
            return self._lost()
        damaged = self._damaged(connection, *(file.st_size for file in found))
        return None if damaged is None else _State(_overwritten(damaged))

    def _damaged(
        self, connection: apsw.Connection, database_bytes: int, log_bytes: int, index_bytes: int
    ) -> str | None:
        """Return the name of a file that was truncated or overwritten."""
        if database_bytes == 0:
            return "database"
        if index_bytes < self._index_bytes:  # checked before SQLite touches the mapped memory
            return "-shm"
        self._index_bytes = index_bytes
        if not self._log.are_complete(connection, log_bytes):
            return "-wal"
        if database_bytes < self._database_bytes and not self._log.may_explain(
            connection, database_bytes
        ):
            return "database"
        self._database_bytes = database_bytes
        return None

    def _lost(self) -> _State | None:
        """Return which file is no longer at its path."""
        found = [_identity(path) for path in self._paths]
        pairs = zip(_SUFFIXES, found, self._files, strict=True)
        lost = [suffix for suffix, file, known in pairs if file != known]
        if not lost:
            return None
        database, log, index = found
        is_log_lost = database == self._files[0] and log is None and index in (None, self._files[2])
        return _State(_moved(lost[0]), is_log_lost=is_log_lost)


def _mark(folder: str) -> _Mark:
    found = os.stat(folder)  # noqa: PTH116 (twice as fast as Path)
    return _Mark(found.st_dev, found.st_ino, found.st_mtime_ns)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        file = os.stat(path)  # noqa: PTH116 (paths are text here)
    except FileNotFoundError:
        return None
    return file.st_dev, file.st_ino


def _moved(suffix: str) -> str:
    return (
        f"The {suffix or 'database'} file was moved, replaced or deleted while it was in use;"
        " put it back if it was moved, else stop all processes that use it, and start again"
    )


def _overwritten(name: str) -> str:
    return (
        f"The {name} file was truncated or overwritten while it was in use; stop all processes"
        " that use it, start again, and restore a backup if plants are missing"
    )
