"""Keeps a store away from files of other programs, and notices the loss of its own files.

SQLite changes files when it opens and closes them: it replays a journal, and copies a write-ahead
log to its database. So `require_ours` looks at a file before SQLite may change it.

While a database is in use, SQLite keeps three files open: the database, its log (-wal) and the
index of the log (-shm). It does not notice when one of them is deleted or replaced. It continues to
commit to files that nobody else can find. A process that starts opens new files, and the two
overwrite each other's changes. Two rules prevent this:

- A process that starts does not open new files while another one has the old files open
  (`require_no_lost_files`).
- A process that changes something compares its files before the change and before the answer
  (`FileGuard`).

A copy at the path cannot be told from the database by a process that starts. So the parent of
several workers keeps the database open, and tells each new worker which files it must find.
"""

import contextlib
import itertools
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from plantstore.errors import NothingDoneError, StoreUnavailableError
from plantstore.storage.sqlite.file import opened, require_application, wait_for_another

# The header of a database, and the beginning of the B-tree with its tables.
_DATABASE_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 108
_LEAF: Final = 13

# A journal begins with these bytes. The number of pages that the database had is in bytes 16 to 20.
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")

_SUFFIXES: Final = ("", "-wal", "-shm")

# Inode and device of each file of a database; None for one that is missing.
Files: TypeAlias = Sequence[tuple[int, int] | None]


def require_ours(path: str, name: str, *, may_create: bool) -> None:
    """Refuse files of other programs or users, without a lock or a change.

    `prepare` checks the database again after SQLite has opened it.

    Args:
        path: of the database, without symbolic links.
        name: of the database in messages.
        may_create: whether the file may be missing.

    Raises:
        StoreUnavailableError: the file is missing, is not a database, or belongs to another program
            or user.
        NothingDoneError: the file is missing, but its log exists.

    """
    # The database comes last: it has content before another process creates its log.
    log, index, file = (_stat(f"{path}{suffix}") for suffix in ("-wal", "-shm", ""))
    if (file is None or file.st_size == 0) and (log or index):
        raise NothingDoneError(
            f"The database {name} is missing or empty, and {name}-wal or {name}-shm is there;"
            " put the database back, or move these files away to begin anew"
        )
    if file is None:
        if not may_create:
            advice = "`plantstore migrate` creates one, and --database names another"
            if not name.startswith("/"):
                advice += " (an absolute path has four slashes: sqlite:////FILE)"
            raise StoreUnavailableError(f"No database at {name}; {advice}")
        return
    if not stat.S_ISREG(file.st_mode):  # reading a pipe would block
        raise StoreUnavailableError(f"The database cannot be opened: {name} is not a regular file")
    if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        why = "may not be read and written by this user; run the command as the service's user"
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            why = "is on a read-only file system; copy it first"
        raise StoreUnavailableError(f"The database {name} {why}")
    if file.st_size and not _will_be_emptied(f"{path}-journal"):
        with opened(path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]) as database:
            _require_our_header(database.xRead(min(_HEADER_BYTES, file.st_size), 0), name)


def require_no_lost_files(path: str, name: str) -> None:
    """Refuse a database in use whose log, or the index of the log, is not at its path.

    Each process that uses a database holds a shared lock on it. If a file is missing, and SQLite
    can lock the database exclusively, then nobody uses it.

    Args:
        path: of the database, which exists.
        name: of the database in messages.

    Raises:
        NothingDoneError: a process uses the database with lost files, or by another name.

    """
    for polls in itertools.count():
        if all(_stat(f"{path}{suffix}") for suffix in ("-wal", "-shm")) or _is_unused(path):
            return
        # For a moment, a process that opens or closes the database has only some of the files.
        if not wait_for_another(polls):
            raise NothingDoneError(
                f"The database {name} is in use by another process, and {name}-wal or {name}-shm"
                " was moved or deleted; put it back, or save it before you stop the other process"
                " (docs/operations.md, Files that were lost in use)"
            )


def _is_unused(path: str) -> bool:
    """Return whether no process uses the database."""
    with opened(path, [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]) as file:
        try:
            file.xLock(apsw.SQLITE_LOCK_SHARED)
            file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        except apsw.BusyError:
            return False
    return True


def identify_files(path: str) -> Files:
    """Return what identifies the files of a database in use, by its path without symbolic links."""
    found = [_stat(f"{path}{suffix}") for suffix in _SUFFIXES]
    return [file and (file.st_ino, file.st_dev) for file in found]


def describe_loss(path: str, files: Files) -> str | None:
    """Return which of the files of a database in use is lost; None if they are at its path."""
    for suffix, found, known in zip(_SUFFIXES, identify_files(path), files, strict=True):
        if found != known:
            return (
                f"The {suffix or 'database'} file was moved, replaced or deleted while it was"
                " in use; put it back, or save it before you stop the service (docs/operations.md,"
                " Files that were lost in use)"
            )
    return None


class FileGuard:
    """Knows the files of an open database by inode and device.

    If the files are wrong, no checkpoint is made, not even when the database is closed: it could
    copy one log into another database, and SQLite deletes a log by its path. The same holds after
    the disk has failed to sync the database.

    Any thread may call the methods.

    Args:
        path: of the database, without symbolic links.

    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._files = identify_files(path)
        self._failure: str | None = None

    @contextlib.contextmanager
    def checked(self) -> Iterator[None]:
        """Compare the files before and after the transaction in the block.

        Raises:
            NothingDoneError: the files were wrong before. The block was not run.
            StoreUnavailableError: the files are wrong after the block.

        """
        if problem := self._problem():
            raise NothingDoneError(problem)
        yield
        self.require_files()

    def refuse_changes(self) -> None:
        """Refuse all further changes, because the disk failed to sync the database."""
        self._failure = (
            "The disk failed to sync the database; stop all processes that use it, check the disk,"
            " and start again. All plants are in the database and its -wal file"
        )

    def require_files(self) -> None:
        """Raise StoreUnavailableError if a new connection would open other files."""
        if problem := self._problem():
            raise StoreUnavailableError(problem)

    def close(self, connections: Sequence[apsw.Connection]) -> None:
        """Close the connections. Checkpoint only if the files are right."""
        is_wrong = self._problem() is not None
        for connection in connections:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(is_wrong))
        for connection in connections:
            connection.close()

    def _problem(self) -> str | None:
        return self._failure or describe_loss(self._path, self._files)


def _require_our_header(header: bytes, name: str) -> None:
    """Raise StoreUnavailableError if the first page belongs to another program.

    The other pages may be outdated: SQLite has not applied the log yet.
    https://sqlite.org/fileformat2.html#the_database_header
    """
    if len(header) < _HEADER_BYTES or not header.startswith(_DATABASE_MAGIC):
        raise StoreUnavailableError(f"The database {name} cannot be opened: it is not a database")
    [application_id] = struct.unpack_from(">I", header, 68)
    page_type, tables = struct.unpack_from(">B2xH", header, 100)
    require_application(page_type == _LEAF and tables == 0, application_id, name)


def _will_be_emptied(journal: str) -> bool:
    """Return whether SQLite will replay a journal that leaves the database empty."""
    try:
        with Path(journal).open("rb") as file:
            head = file.read(20)
    except FileNotFoundError:
        return False
    return head[:8] == _JOURNAL_MAGIC and head[16:] == bytes(4)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (paths are text here)
    except FileNotFoundError:
        return None
