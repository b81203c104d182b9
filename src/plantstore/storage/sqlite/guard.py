"""Keeps a store away from files of other programs, and notices the loss of its own files.

SQLite changes files when it opens and closes them: it replays a journal, and copies a write-ahead
log to its database. So `require_ours` looks at a file before SQLite may change it. It also refuses
a file whose log another process would not find: one with several names, or one that is mounted
without its folder, as into a container.

While a database is in use, SQLite keeps three files open: the database, its log (-wal) and the
index of the log (-shm). It does not notice when one of them is deleted or replaced. It continues to
commit to files that nobody else can find. A process that starts opens new files, and the two
overwrite each other's changes. Two rules prevent this:

- A process that starts does not open new files while another one has the old files open
  (`require_no_lost_files`).
- A process that changes something checks its files before the change and before the answer
  (`FileGuard`).

A copy at the path cannot be told from the database by a process that starts. So the parent of
several workers keeps the database open, and tells each new worker which files it must find.
"""

import contextlib
import errno
import itertools
import math
import os
import re
import stat
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.migrate import require_known
from plantstore.storage.sqlite.file import opened, require_application, wait_for_another

# The header of a database, and the beginning of the B-tree with its tables.
_DATABASE_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 108
_LEAF: Final = 13

# A journal begins with these bytes. The number of pages that the database had is in bytes 16 to 20.
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")

# The first bytes of a log (https://sqlite.org/walformat.html).
_LOG_MAGIC: Final = b"\x37\x7f\x06"

# How long after a full check a quick check is enough. A quick check does not notice that the
# database or the index of the log was truncated.
FRESH_SECONDS: Final = 0.1

# File times have the resolution of the kernel's tick, which is ten milliseconds at most.
_TICK_NANOSECONDS: Final = 20_000_000

# How often a file that seems damaged is checked: another process may be restarting the log.
_CHECKS_MAX: Final = 10

_SUFFIXES: Final = ("", "-wal", "-shm")

# Device and inode of each file of a database; None for one that is missing.
Files: TypeAlias = Sequence[tuple[int, int] | None]


def require_ours(path: str, name: str) -> None:
    """Refuse files of other programs or in a wrong place, without a lock or a change.

    `prepare` checks the database again after SQLite has opened it.

    Args:
        path: of the database, without symbolic links. The file need not exist.
        name: of the database in messages.

    Raises:
        StoreUnavailableError: the file is not a database, belongs to another program, was written
            by a newer version, has several names, or is mounted without its folder.
        StoreUnreachableError: the file is missing, but its log exists.

    """
    # The database comes last: it has content before another process creates its log.
    log, index, file = (_stat(f"{path}{suffix}") for suffix in ("-wal", "-shm", ""))
    if file and not stat.S_ISREG(file.st_mode):  # reading a pipe would block
        raise StoreUnavailableError(f"The database cannot be opened: {name} is not a regular file")
    if file and file.st_nlink > 1:
        raise StoreUnavailableError(
            f"The database {name} has several names (hard links), and would have a log for each;"
            " keep the one that has a -wal file beside it, and delete the others"
        )
    if file and _is_mount_point(path):
        raise StoreUnavailableError(
            f"The database {name} is mounted as a single file, so its log would not be stored"
            " beside it; mount its folder"
        )
    if file is None or file.st_size == 0:
        if log or index:
            raise StoreUnreachableError(
                f"The database {name} is missing or empty, and {name}-wal or {name}-shm is there;"
                " put the database back, or move these files away to begin anew"
            )
    elif not _will_be_emptied(f"{path}-journal"):
        _require_our_header(_read_header(path, file.st_size), name)


def _is_mount_point(path: str) -> bool:
    """Return whether something is mounted on a path (proc_pid_mountinfo(5))."""
    try:
        mounts = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except FileNotFoundError:  # not Linux
        return False
    escaped = re.sub(rb"[\t\n \\]", lambda found: b"\\%03o" % found[0][0], os.fsencode(path))
    return any(mount.split()[4] == escaped for mount in mounts)


def require_existing(path: str, name: str) -> None:
    """Raise StoreUnavailableError if there is no database file."""
    if not Path(path).exists():
        raise StoreUnavailableError(
            f"No database at {name}; `plantstore migrate` creates one, and --database names another"
        )


def require_no_lost_files(path: str, name: str) -> None:
    """Refuse a database in use whose log, or the index of the log, is not at its path.

    Each process that uses a database holds a shared lock on it. If a file is missing, and SQLite
    can lock the database exclusively, then nobody uses it.

    Args:
        path: of the database, which exists.
        name: of the database in messages.

    Raises:
        StoreUnreachableError: a process uses the database with lost files.

    """
    for polls in itertools.count():
        if all(_stat(f"{path}{suffix}") for suffix in ("-wal", "-shm")) or _is_unused(path):
            return
        # For a moment, a process that opens or closes the database has only some of the files.
        if not wait_for_another(polls):
            raise StoreUnreachableError(
                f"The database {name} is in use by another process, and {name}-wal or {name}-shm"
                " was moved or deleted; put it back, or stop all processes that use the database"
            )


def _is_unused(path: str) -> bool:
    """Return whether no process uses the database, or this user cannot write it anyway."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    with opened(path, flags) as file:
        if flags[1] & apsw.SQLITE_OPEN_READONLY:
            return True
        try:
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        except apsw.BusyError:
            return False
        finally:
            file.xUnlock(apsw.SQLITE_LOCK_NONE)
    return True


def identify_files(path: str) -> Files:
    """Return what identifies the files of a database in use, by its path without symbolic links."""
    return [_identity(f"{path}{suffix}") for suffix in _SUFFIXES]


def describe_loss(path: str, files: Files) -> str | None:
    """Return which of the files of a database in use is lost; None if they are at its path."""
    for suffix, found, known in zip(_SUFFIXES, identify_files(path), files, strict=True):
        if found != known:
            return (
                f"The {suffix or 'database'} file was moved, replaced or deleted while it was"
                " in use; put it back if it was moved, else stop all processes that use it, and"
                " start again"
            )
    return None


class FileGuard:
    """Knows the files of an open database by device and inode.

    =====  =====================================================  ==================================
    check  what it compares                                       when
    =====  =====================================================  ==================================
    quick  the time of the folder, and the magic of the log       before and after each transaction
    full   device and inode of the three files; that none is      instead, if the quick one found a
           empty, except a log without frames; and that the log   difference; before a transaction,
           has all pages that the database file lacks             if it is older than FRESH_SECONDS;
                                                                  and before the last checkpoint
    =====  =====================================================  ==================================

    With the full check only, a commit of one plant takes a fifth longer in the store.

    If the files are wrong, no checkpoint is made, not even when the database is closed: it could
    copy one log into another database, and SQLite deletes a log by its path. There is one
    exception: if only the log was deleted, this process still has it open, and saves its content.
    The same holds after the disk has failed to sync the database.

    Any thread may call the methods, with a connection that the thread may use. Two full checks
    never overlap: one would compare the size of the file with what the other has found later.

    Args:
        path: of the database, without symbolic links.
        monotonic: a clock in seconds that never goes back.

    Raises:
        FileNotFoundError: one of the files does not exist.

    """

    def __init__(
        self,
        path: str,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()  # held by a full check
        self._checked_at = -math.inf
        self._path = path
        self._folder = str(Path(path).parent)
        self._folder_time: int | None = None
        self._paths = [f"{path}{suffix}" for suffix in _SUFFIXES]
        found = [os.stat(path) for path in self._paths]  # noqa: PTH116 (twice as fast as Path)
        self._files = [(file.st_dev, file.st_ino) for file in found]
        self._database_bytes = found[0].st_size
        self._is_unsynced = False
        # SQLite takes no locks on the log, so closing it here drops none.
        self._log = os.open(f"{path}-wal", os.O_RDONLY | os.O_CLOEXEC)

    @contextlib.contextmanager
    def checked(self, connection: apsw.Connection) -> Iterator[None]:
        """Check the files before and after the transaction in the block.

        Raises:
            StoreUnreachableError: the files were wrong before. The block was not run.
            StoreUnavailableError: the files are wrong after the block.

        """
        if self._is_unsynced:
            raise StoreUnreachableError(
                "The disk failed to sync the database; stop all processes that use it, check the"
                " disk, and start again. All plants are in the database and its -wal file"
            )
        is_fresh = self._monotonic() - self._checked_at <= FRESH_SECONDS
        if not (is_fresh and self._is_unchanged()) and (problem := self._problem(connection)):
            raise StoreUnreachableError(problem)
        yield
        if not self._is_unchanged() and (problem := self._problem(connection)):
            raise StoreUnavailableError(problem)

    def refuse_changes(self) -> None:
        """Refuse all further changes, because the disk failed to sync the database."""
        self._is_unsynced = True

    def require_files(self) -> None:
        """Raise StoreUnavailableError if a new connection would open other files."""
        if problem := describe_loss(self._path, self._files):
            raise StoreUnavailableError(problem)

    def close(self, connections: Sequence[apsw.Connection]) -> None:
        """Close the connections. Checkpoint only if the files are right."""
        try:
            is_right = not self._is_unsynced and self._problem(connections[0]) is None
        except (OSError, apsw.Error):
            is_right = False
        for connection in connections:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not is_right))
        for connection in connections:
            connection.close()
        os.close(self._log)

    def _is_unchanged(self) -> bool:
        """Do a quick check, with two system calls.

        A folder changes when a file in it is created, deleted or moved. A log that is truncated
        loses its header.
        """
        return (
            self._folder_time == os.stat(self._folder).st_mtime_ns  # noqa: PTH116 (twice as fast)
            and os.pread(self._log, len(_LOG_MAGIC), 0) == _LOG_MAGIC
        )

    def _problem(self, connection: apsw.Connection) -> str | None:
        """Do a full check: return what is wrong with the files.

        The connection must not be in a transaction.
        """
        with self._lock:
            return self._compare(connection)

    def _compare(self, connection: apsw.Connection) -> str | None:
        now, folder_time = time.time_ns(), _modified(self._folder)
        try:
            found = [os.stat(path) for path in self._paths]  # noqa: PTH116 (twice as fast as Path)
        except FileNotFoundError:
            found = []
        if [(file.st_dev, file.st_ino) for file in found] != self._files:
            self._save_lost_log(connection)
            return describe_loss(self._path, self._files)
        database, _, index = found
        # The size of the index is checked before SQLite touches the mapped memory.
        if not (
            database.st_size
            and index.st_size
            and (self._has_log_head() or self._may_lack_log(connection))
            and (
                database.st_size >= self._database_bytes
                or self._may_be_smaller(connection, database.st_size)
            )
        ):
            return (
                "A file of the database was truncated or overwritten while it was in use; stop all"
                " processes that use it, start again, and restore a backup if plants are missing"
            )
        self._database_bytes = database.st_size
        self._checked_at = self._monotonic()
        # A folder that has just changed may change again without getting a later time.
        self._folder_time = folder_time if now - folder_time > _TICK_NANOSECONDS else None
        return None

    def _has_log_head(self) -> bool:
        return os.pread(self._log, len(_LOG_MAGIC), 0) == _LOG_MAGIC

    def _may_lack_log(self, connection: apsw.Connection) -> bool:
        """Return whether the log is empty, as SQLite knows, or has begun meanwhile."""
        return any(
            _count_frames(connection) == 0 or self._has_log_head() for _ in range(_CHECKS_MAX)
        )

    def _may_be_smaller(self, connection: apsw.Connection, database_bytes: int) -> bool:
        """Return whether the log may have all pages that a smaller database file lacks.

        A VACUUM by another program makes the file smaller, and so does a truncation.
        """
        page_bytes: int = connection.pragma("page_size")
        missing: int = connection.pragma("page_count") - database_bytes // page_bytes
        return missing <= _count_frames(connection)

    def _save_lost_log(self, connection: apsw.Connection) -> None:
        """Copy the log to the database, if it was deleted and nobody has written to another one."""
        database, _, index = map(_identity, self._paths)
        log = _stat(self._paths[1])  # a process that starts may have created an empty one
        if (log and log.st_size) or database != self._files[0]:
            return
        if index in (None, self._files[2]):
            with contextlib.suppress(apsw.Error):  # the caller reports the loss
                frames, saved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
                # SQLite writes to another log only after everything was saved.
                if saved < frames:
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def _read_header(path: str, size: int) -> bytes:
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    with opened(path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]) as file:
        return file.xRead(min(_HEADER_BYTES, size), 0)


def _require_our_header(header: bytes, name: str) -> None:
    """Raise StoreUnavailableError if the first page belongs to another program or version.

    https://sqlite.org/fileformat2.html#the_database_header
    """
    if len(header) < _HEADER_BYTES or not header.startswith(_DATABASE_MAGIC):
        raise StoreUnavailableError(f"The database {name} cannot be opened: it is not a database")
    schema, application_id = struct.unpack_from(">I4xI", header, 60)
    page_type, tables = struct.unpack_from(">B2xH", header, 100)
    require_application(page_type == _LEAF and tables == 0, application_id, name)
    require_known("sqlite", schema, name)


def _will_be_emptied(journal: str) -> bool:
    """Return whether SQLite will replay a journal that leaves the database empty."""
    try:
        with Path(journal).open("rb") as file:
            head = file.read(20)
    except FileNotFoundError:
        return False
    return head[:8] == _JOURNAL_MAGIC and head[16:] == bytes(4)


def _count_frames(connection: apsw.Connection) -> int:
    """Return how many frames of the log are valid."""
    return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]


def _modified(folder: str) -> int:
    return os.stat(folder).st_mtime_ns  # noqa: PTH116 (twice as fast as Path)


def _identity(path: str) -> tuple[int, int] | None:
    file = _stat(path)
    return file and (file.st_dev, file.st_ino)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (paths are text here)
    except FileNotFoundError:
        return None
