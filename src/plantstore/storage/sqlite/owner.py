"""Checks which program a database file belongs to, before SQLite opens the file.

SQLite changes files when it opens or closes them: it replays a journal, builds the index of a
log, and checkpoints and deletes the log. The database of another program must not be changed.
The first page of a database shows which program it belongs to
(https://sqlite.org/fileformat2.html). The latest version of that page may be in the log. So this
module reads the file and the log, without a lock and without changing anything.

After this check, SQLite opens the file. `prepare` checks it again, with SQLite's locks.
"""

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import apsw

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.migrate import insist_on_known

# Marks our files, in the header (https://sqlite.org/fileformat2.html#application_id).
APPLICATION_ID: Final = int.from_bytes(b"plst")

# The files that SQLite may open. They must be regular files: reading a pipe would block.
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")

_MAGIC: Final = b"SQLite format 3\0"
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_LEAF: Final = 13
_WAL_MODE: Final = 2

# The part of the first page that is read. This is the smallest page size of SQLite.
_PAGE_BYTES: Final = 512
_LOG_HEAD_BYTES: Final = 32
_FRAME_HEAD_BYTES: Final = 24


def insist_on_ours(path: str, name: str) -> bool:
    """Refuse the files of other programs.

    Args:
        path: of the database, without symbolic links. The file need not exist.
        name: of the database in messages.

    Returns:
        Whether other processes may be using the database with a write-ahead log.

    Raises:
        StoreUnavailableError: the file is not a database, belongs to another program, or was
            written by a newer version.
        StoreUnreachableError: the file is missing, but its log exists.

    """
    for suffix in _SUFFIXES:
        _insist_on_regular(f"{path}{suffix}", f"{name}{suffix}")
    # The log is opened first: another process may checkpoint and delete it at any moment.
    with _opened(f"{path}-wal") as log:
        page = _first_page(path)
        if page is None:
            if log and os.fstat(log.fileno()).st_size:
                raise StoreUnreachableError(
                    f"The database {name} is missing or empty, and its log {name}-wal is there;"
                    f" put the database back, or move {name}-wal away to begin anew"
                )
            return not Path(path).exists()
        candidates = {_Claim.of(page), *(map(_Claim.of, _logged_pages(log)) if log else ())}
        if any(claim.refusal(name) for claim in candidates):
            # Only the checksums show which version is valid. Checking them takes more time.
            committed = _committed_page(log) if log else None
            refusal = _Claim.of(committed or page).refusal(name)
            if refusal and (committed or not _was_empty(f"{path}-journal")):
                raise refusal
    return page[18] == _WAL_MODE


def insist_on_application(is_empty: bool, application_id: int, name: str) -> None:  # noqa: FBT001 (a fact about the file)
    """Raise StoreUnavailableError if a database belongs to another program."""
    if application_id != APPLICATION_ID and (application_id or not is_empty):
        raise StoreUnavailableError(
            f"The database {name} is another program's; name another file with --database"
        )


def insist_on_existing(path: str, name: str) -> None:
    """Raise StoreUnavailableError if there is no database file."""
    if not Path(path).exists():
        raise StoreUnavailableError(
            f"No database at {name}; `plantstore migrate` creates one, and --database names another"
        )


class _Claim(NamedTuple):
    """The fields of a version of the first page that show which program it belongs to."""

    is_database: bool
    is_empty: bool
    schema: int
    application_id: int

    @classmethod
    def of(cls, page: bytes) -> Self:
        """Parse a page."""
        schema, application_id = (int.from_bytes(page[at : at + 4]) for at in (60, 68))
        is_empty = page[100] == _LEAF and page[103:105] == b"\0\0"
        return cls(page.startswith(_MAGIC), is_empty, schema, application_id)

    def refusal(self, name: str) -> StoreUnavailableError | None:
        """Return the error for a database that must not be opened, or None."""
        if not self.is_database:
            return StoreUnavailableError(
                f"The database {name} cannot be opened: it is not a database"
            )
        try:
            insist_on_application(self.is_empty, self.application_id, name)
            insist_on_known("sqlite", self.schema, name)
        except StoreUnavailableError as error:
            return error
        return None


def _first_page(path: str) -> bytes | None:
    """Return the first page of a database file, or None if the file is empty or missing."""
    with contextlib.suppress(FileNotFoundError):
        if size := Path(path).stat().st_size:
            if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            # SQLite closes a file only after this process has released its locks on it. Python
            # would close it at once, and the locks would be lost.
            flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0]
            file = apsw.VFSFile("", path, flags)
            try:
                return file.xRead(min(_PAGE_BYTES, size), 0).ljust(_PAGE_BYTES, b"\0")
            finally:
                file.xClose()
    return None


def _logged_pages(log: BinaryIO) -> Iterator[bytes]:
    """Yield all versions of the first page in a log, without checking their checksums."""
    log.seek(0)
    head = log.read(_LOG_HEAD_BYTES)
    page_bytes = int.from_bytes(head[8:12])
    while (frame := log.read(_FRAME_HEAD_BYTES))[8:16] == head[16:24] != b"":
        page_at = log.tell()
        if frame[:4] == b"\0\0\0\1":
            yield log.read(_PAGE_BYTES).ljust(_PAGE_BYTES, b"\0")
        log.seek(page_at + page_bytes)


def _committed_page(log: BinaryIO) -> bytes | None:
    """Return the first page as of the last committed transaction in a log, or None."""
    log.seek(0)
    head = log.read(_LOG_HEAD_BYTES)
    order = ">" if head[3:4] == b"\x83" else "<"
    sums = _add(order, (0, 0), head[:24])
    if head[:3] != b"\x37\x7f\x06" or struct.pack(">II", *sums) != head[24:]:
        return None
    page_bytes = int.from_bytes(head[8:12])
    seen = committed = None
    while len(frame := log.read(_FRAME_HEAD_BYTES + page_bytes)) == _FRAME_HEAD_BYTES + page_bytes:
        sums = _add(order, _add(order, sums, frame[:8]), frame[24:])
        if frame[8:16] != head[16:24] or frame[16:24] != struct.pack(">II", *sums):
            break
        if frame[:4] == b"\0\0\0\1":
            seen = frame[24 : 24 + _PAGE_BYTES]
        if frame[4:8] != b"\0\0\0\0":
            committed = seen
    return committed


def _add(order: str, sums: tuple[int, int], data: bytes) -> tuple[int, int]:
    """Add data to the checksums of a log (https://sqlite.org/fileformat2.html#walcksm)."""
    first, second = sums
    for one, two in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFF_FFFF
        second = (second + two + first) & 0xFFFF_FFFF
    return first, second


def _was_empty(journal: str) -> bool:
    """Return whether SQLite will replay a journal that leaves the database empty."""
    with _opened(journal) as file:
        head = file.read(20) if file else b""
    return head[:8] == _JOURNAL_MAGIC and head[16:20] == b"\0\0\0\0"


@contextlib.contextmanager
def _opened(path: str) -> Iterator[BinaryIO | None]:
    """Open a file on which no process takes locks; give None if it does not exist."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115 (it is closed below)
    except FileNotFoundError:
        yield None
        return
    with file:
        yield file


def _insist_on_regular(path: str, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 (paths are text here)
            raise StoreUnavailableError(
                f"The database cannot be opened: {name} is not a regular file"
            )
