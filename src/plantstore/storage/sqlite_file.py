"""How a file of SQLite is opened, written, and blamed.

Durability: WAL with `synchronous=FULL`, so a commit returns after its frames are
synced, and `fullfsync` where the platform's fsync does not reach the disk itself.
A crash at any point leaves a log that SQLite replays or discards by itself at the
next start (https://sqlite.org/wal.html).
"""

import contextlib
import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import apsw
import msgspec

from plantstore.errors import StoreUnavailableError
from plantstore.storage.migrate import SchemaPolicy, prepare

# Says whose file this is, in its header (https://sqlite.org/fileformat2.html#application_id).
APPLICATION_ID: Final = int.from_bytes(b"plst")

# How often to ask whether another process has done its write, and how often at most:
# about a second in all. SQLite's own waits grow to a tenth of a second, in which one
# that commits back to back never leaves a gap that the other one sees.
BUSY_POLL_SECONDS: Final = 0.000_3
BUSY_POLLS_MAX: Final = 3_000

# What the log is cut back to, if a long read once kept it from being copied.
LOG_BYTES_MAX: Final = 64 * 1024 * 1024

# The log is written again in pieces of this size. SQLite asks the kernel to write
# amounts modulo 128 KiB, and takes none for a full disk.
_PIECE_BYTES: Final = 64 * 1024


def make_file(path: str) -> None:
    """Make the file, readable to its owner alone, unless it is there.

    SQLite would make it with the mode that the umask leaves. Nothing else may open
    the file by itself: closing it would drop this process's locks on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def identities(path: str) -> list[tuple[int, int]]:
    """Tell which files a path and its log lead to now, by device and inode.

    Raises:
        FileNotFoundError: one of them leads nowhere.

    """
    found = (os.stat(f"{path}{suffix}") for suffix in ("", "-wal"))  # noqa: PTH116 (it takes half the time)
    return [(file.st_dev, file.st_ino) for file in found]


def connect(path: str, policy: SchemaPolicy = SchemaPolicy.ACCEPT) -> apsw.Connection:
    """Open a connection to a file of ours.

    Raises:
        StoreUnavailableError: the file is read-only, or its schema is refused, as
            `prepare` does. It is left alone.

    """
    # The absolute path: SQLite would take a name such as ":memory:" for its own.
    connection = apsw.Connection(str(Path(path).absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_handler(_wait_for_another)
    if connection.readonly("main"):
        raise StoreUnavailableError(f"The database {path} cannot be written: it is read-only")
    for pragma in (
        "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        f"journal_size_limit = {LOG_BYTES_MAX}",
    ):
        connection.pragma(*pragma.split(" = "))
    # Only when this returns is it known to be ours, and may be changed.
    prepare(SQLiteSchema(connection, path), policy)
    connection.set_busy_handler(None)  # or its waits and those here would multiply
    _insist(functools.partial(connection.pragma, "journal_mode", "WAL"))
    connection.set_busy_handler(_wait_for_another)
    return connection


def sync_log(connection: apsw.Connection) -> None:
    """Make sure of what a crash left in the log, before anybody is told that it is stored.

    SQLite brings back what it finds whole there, also what was never synced, or what
    failed to be: that is in the memory of a kernel which may never try it again. So it
    is written once more, as it is, and synced.
    """
    with transaction(connection):  # so that nobody else writes
        log = apsw.VFSFile(
            "", connection.filename_wal, [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0]
        )
        try:
            size = log.xFileSize()
            for start in range(0, size, _PIECE_BYTES):
                log.xWrite(log.xRead(min(_PIECE_BYTES, size - start), start), start)
            log.xSync(apsw.SQLITE_SYNC_FULL)
        finally:
            log.xClose()


def _insist(act: Callable[[], object]) -> None:
    """Do what another process may be in the way of, and for which SQLite may ask no handler."""
    for polls in itertools.count():
        try:
            act()
        except apsw.BusyError:
            if not _wait_for_another(polls):
                raise
        else:
            return


def _wait_for_another(polls: int) -> bool:
    time.sleep(BUSY_POLL_SECONDS)
    return polls < BUSY_POLLS_MAX


class SQLiteSchema:
    """The schema of a file, whose header counts the migrations applied."""

    engine = "sqlite"

    def __init__(self, connection: apsw.Connection, path: str) -> None:
        self.database = path
        self._connection = connection

    def version(self) -> int:
        # In this order: another process may migrate between any two of these.
        objects = self._connection.execute("SELECT count(*) FROM sqlite_schema").get
        is_ours = self._connection.pragma("application_id") == APPLICATION_ID
        version: int = self._connection.pragma("user_version")
        if objects and not is_ours:
            raise StoreUnavailableError(f"The database {self.database} is another program's")
        return version

    def locked(self) -> AbstractContextManager[None]:
        return transaction(self._connection)

    def apply(self, step: str, version: int) -> None:
        self._connection.execute(step)
        self._connection.pragma("application_id", APPLICATION_ID)
        self._connection.pragma("user_version", version)


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commit what the block does, or undo it all.

    apsw's own `with connection` would hold the interpreter lock, and with it the
    event loop, while it waits for the disk or for another process.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def errors_as_ours(what: str) -> Iterator[None]:
    """Raise what the storage is to blame for as StoreUnavailableError; a bug stays a bug."""
    try:
        yield
    except (
        OSError,
        msgspec.DecodeError,  # of what the file holds
        apsw.BusyError,
        apsw.CantOpenError,
        apsw.CorruptError,
        apsw.FullError,
        apsw.IOError,
        apsw.LockedError,
        apsw.NoMemError,
        apsw.NotADBError,
        apsw.PermissionsError,
        apsw.ProtocolError,
        apsw.ReadOnlyError,
    ) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreUnavailableError(f"{what}: {reason}") from error
