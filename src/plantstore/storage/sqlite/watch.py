"""Whether the files of an open database are still the ones that its path leads to, and whole.

SQLite keeps its files open and does not notice when one is deleted, moved, replaced or truncated.
It would go on to commit to files that nobody finds any more, or that another process, which has
opened the new ones, overwrites. So each change is made between two looks at the files. The one
before keeps us from writing to a log that another process may use with another -shm file. The
one after tells whether the change is where the next start will find it. Each call of the system
lets go of the interpreter lock, and waits for the event loop to get it again. So while changes
follow each other, a look is no more than a glance at the folder and at the head of the log,
unless these have changed.

A database whose files are not ours any more is not checkpointed, not even when it is closed:
frames of one log would go into the database of another, and SQLite deletes the log by its name.
There is one exception. If only the log has no name any more, this process has it still open, and
a checkpoint saves what is in it.
"""

import contextlib
import itertools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import apsw

from plantstore.errors import StoreUnavailableError, StoreUnreachableError

# The log begins with a header, and each page in it is a frame (https://sqlite.org/walformat.html).
_LOG_HEAD_BYTES: Final = 32
_FRAME_HEAD_BYTES: Final = 24
_LOG_MAGIC: Final = b"\x37\x7f\x06"

# A log that seems damaged is looked at so often, since another process may just begin it anew.
_LOOKS_MAX: Final = 10

# For so long after a look, a glance is enough.
FRESH_SECONDS: Final = 0.1

# Times of files are those of the kernel's tick, which is ten milliseconds at most.
_TICK_NANOSECONDS: Final = 20_000_000

_SUFFIXES: Final = ("", "-wal", "-shm")


class _State(NamedTuple):
    """What is wrong with the files."""

    problem: str
    is_log_lost: bool = False
    """Only the log has no name any more."""


class _Mark(NamedTuple):
    """What changes of a folder when a name in it is made, deleted or moved."""

    device: int
    inode: int
    changed_at: int


class Watch:
    """Knows the files of a database that is open, by device and inode.

    Its methods may be called by any thread, each with a connection that the thread may use.

    Args:
        path: of the database, without symbolic links.
        connection: one that has it open.
        wait: is told how often the log was busy; waits, and tells whether to look again.
        monotonic: a clock in seconds that is never set back.

    Raises:
        FileNotFoundError: one of the files is not there.

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
        self._looked_at = -math.inf
        self._page_bytes: int = connection.pragma("page_size")
        self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)  # nobody locks the log
        try:
            found = self._look()
        except FileNotFoundError:
            os.close(self._log)
            raise
        self._files = [(file.st_dev, file.st_ino) for file in found]
        self._database_bytes, _, self._index_bytes = (file.st_size for file in found)

    @contextlib.contextmanager
    def over(self, connection: apsw.Connection) -> Iterator[None]:
        """Look at the files before and after a transaction of the block.

        Raises:
            StoreUnreachableError: they were not right before. The block was not run.
            StoreUnavailableError: they are not right after it.

        """
        if self._monotonic() - self._looked_at > FRESH_SECONDS or not self._is_unchanged():
            self.insist(connection, StoreUnreachableError)
        yield
        if not self._is_unchanged():
            self.insist(connection, StoreUnavailableError)

    def _is_unchanged(self) -> bool:
        """Tell whether the folder and the head of the log are as when all was right, at a glance.

        A file that is deleted, moved or replaced changes its folder, and one that is truncated
        to nothing loses its head.
        """
        return self._known == (_mark(self._folder), os.pread(self._log, _LOG_HEAD_BYTES, 0))

    def insist(
        self,
        connection: apsw.Connection,
        error: type[StoreUnavailableError] = StoreUnavailableError,
    ) -> None:
        """Raise an error if the files are not right; the connection must be in no transaction."""
        now, mark = time.time_ns(), _mark(self._folder)
        head = os.pread(self._log, _LOG_HEAD_BYTES, 0)
        state = self._state(connection)
        if state is None:
            self._looked_at = self._monotonic()
            # A folder that was changed just now may change once more in the same tick of its clock.
            self._known = (mark, head) if now - mark.changed_at > _TICK_NANOSECONDS else None
            return
        if state.is_log_lost:
            with contextlib.suppress(apsw.Error):  # what is wrong is said below
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        raise error(state.problem)

    def insist_on_names(self) -> None:
        """Raise StoreUnavailableError if another connection would open other files."""
        if state := self._lost():
            raise StoreUnavailableError(state.problem)

    def close(self, connections: Sequence[apsw.Connection]) -> None:
        """Close connections, with a checkpoint only if the files are right."""
        try:
            state = self._state(connections[0])
            is_right = state is None or state.is_log_lost
        except (OSError, apsw.Error):
            is_right = False
        for connection in connections:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not is_right))
        for connection in connections:
            connection.close()
        os.close(self._log)

    def _look(self) -> list[os.stat_result]:
        return [os.stat(path) for path in self._paths]  # noqa: PTH116 (it takes half the time)

    def _state(self, connection: apsw.Connection) -> _State | None:
        try:
            found = self._look()
        except FileNotFoundError:
            return self._lost()
        if [(file.st_dev, file.st_ino) for file in found] != self._files:
            return self._lost()
        damaged = self._damaged(connection, *(file.st_size for file in found))
        return None if damaged is None else _State(_overwritten(damaged))

    def _damaged(
        self, connection: apsw.Connection, database_bytes: int, log_bytes: int, index_bytes: int
    ) -> str | None:
        """Return what to call a file that was truncated or overwritten."""
        if database_bytes == 0:
            return "database"
        if index_bytes < self._index_bytes:  # before SQLite touches its memory
            return "-shm"
        self._index_bytes = index_bytes
        if not self._is_log_whole(connection, log_bytes):
            return "-wal"
        if database_bytes < self._database_bytes and not self._is_all_there(
            connection, database_bytes
        ):
            return "database"
        self._database_bytes = database_bytes
        return None

    def _lost(self) -> _State | None:
        """Return what is wrong with the names of the files."""
        names = [_identity(path) for path in self._paths]
        pairs = zip(_SUFFIXES, names, self._files, strict=True)
        lost = [suffix for suffix, name, known in pairs if name != known]
        if not lost:
            return None
        database, log, index = names
        is_log_lost = database == self._files[0] and log is None and index in (None, self._files[2])
        return _State(_moved(lost[0]), is_log_lost=is_log_lost)

    def _is_log_whole(self, connection: apsw.Connection, log_bytes: int) -> bool:
        """Tell whether the log holds all frames that count, and their header.

        Another process may begin the log anew between two of these steps, so they are repeated.
        """
        looks = 0
        for polls in itertools.count():
            try:
                frames = self._count_frames(connection)
            except apsw.BusyError:
                if not self._wait(polls):
                    raise
                continue
            if frames == 0 or self._holds(frames, log_bytes):
                return True
            looks += 1
            if looks == _LOOKS_MAX:
                return False
            self._wait(polls)
            log_bytes = os.fstat(self._log).st_size
        raise AssertionError  # pragma: no cover (the count has no end)

    def _count_frames(self, connection: apsw.Connection) -> int:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]

    def _holds(self, frames: int, log_bytes: int) -> bool:
        """Tell whether the last of so many frames is there, and has the salts of the header."""
        frame_bytes = _FRAME_HEAD_BYTES + self._page_bytes
        if log_bytes < _LOG_HEAD_BYTES + frames * frame_bytes:
            return False
        head = os.pread(self._log, _LOG_HEAD_BYTES, 0)
        last = os.pread(self._log, 16, _LOG_HEAD_BYTES + (frames - 1) * frame_bytes)
        return head[:3] == _LOG_MAGIC and head[16:24] == last[8:]

    def _is_all_there(self, connection: apsw.Connection, database_bytes: int) -> bool:
        """Tell whether a file that became smaller may hold all that is not in the log.

        A VACUUM of another program makes it smaller, and a truncation does.
        """
        missing: int = connection.pragma("page_count") - database_bytes // self._page_bytes
        return missing <= self._count_frames(connection)


def _mark(folder: str) -> _Mark:
    found = os.stat(folder)  # noqa: PTH116 (it takes half the time)
    return _Mark(found.st_dev, found.st_ino, found.st_mtime_ns)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        file = os.stat(path)  # noqa: PTH116 (the paths here are text)
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
