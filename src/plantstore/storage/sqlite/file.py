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
from typing import Final

import apsw
import msgspec

from plantstore.errors import StoreUnavailableError
from plantstore.storage.migrate import SchemaPolicy, prepare
from plantstore.storage.sqlite.owner import APPLICATION_ID, insist_on_application

# How often to ask whether another process has done its write, and how often at most:
# about a second in all. SQLite's own waits grow to a tenth of a second, in which one
# that commits back to back never leaves a gap that the other one sees.
BUSY_POLL_SECONDS: Final = 0.000_3
BUSY_POLLS_MAX: Final = 3_000

# Past this size the log is made to begin anew, and then cut back to it. Four times what it
# usually has when SQLite copies it by itself.
LOG_BYTES_MAX: Final = 16 * 1024 * 1024

# The log is written again in pieces of this size. SQLite asks the kernel to write
# amounts modulo 128 KiB, and takes none for a full disk.
_PIECE_BYTES: Final = 64 * 1024


def wait_for_another(polls: int) -> bool:
    """Wait a moment for another process; tell whether to try again. It is a busy handler."""
    time.sleep(BUSY_POLL_SECONDS)
    return polls < BUSY_POLLS_MAX


def make_file(path: str) -> None:
    """Make the file, readable to its owner alone, unless it is there.

    SQLite would make it with the mode that the umask leaves. Nothing else may open
    the file by itself: closing it would drop this process's locks on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def connect(
    path: str,
    name: str,
    policy: SchemaPolicy = SchemaPolicy.ACCEPT,
    *,
    wait: Callable[[int], bool] = wait_for_another,
) -> apsw.Connection:
    """Open a connection to a file of ours.

    Args:
        path: the file.
        name: what messages call it.
        policy: what to do about its schema.
        wait: the busy handler.

    Raises:
        StoreUnavailableError: the file is read-only, or its schema is refused, as
            `prepare` does. It is left alone.

    """
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_handler(wait)
    if connection.readonly("main"):
        raise StoreUnavailableError(f"The database {name} cannot be written: it is read-only")
    for pragma in (
        "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        f"journal_size_limit = {LOG_BYTES_MAX}",
    ):
        connection.pragma(*pragma.split(" = "))
    # Only when this returns is it known to be ours, and may be changed.
    prepare(SQLiteSchema(connection, name), policy)
    connection.set_busy_handler(None)  # or its waits and those here would multiply
    _insist(functools.partial(connection.pragma, "journal_mode", "WAL"), wait)
    connection.set_busy_handler(wait)
    # Whoever closes it must know that its files are still the right ones (`Watch.close`).
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
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


def _insist(act: Callable[[], object], wait: Callable[[int], bool]) -> None:
    """Do what another process may be in the way of, and for which SQLite may ask no handler."""
    for polls in itertools.count():
        try:
            act()
        except apsw.BusyError:
            if not wait(polls):
                raise
        else:
            return


class SQLiteSchema:
    """The schema of a file, whose header counts the migrations applied."""

    engine = "sqlite"

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self.database = name
        self._connection = connection

    def version(self) -> int:
        # In this order: another process may migrate between any two of these.
        objects = self._connection.execute("SELECT count(*) FROM sqlite_schema").get
        application_id: int = self._connection.pragma("application_id")
        version: int = self._connection.pragma("user_version")
        insist_on_application(objects == 0, application_id, self.database)
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
