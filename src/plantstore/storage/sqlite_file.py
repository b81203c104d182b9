"""How a file of SQLite is opened, written, and blamed.

Durability: WAL with `synchronous=FULL`, so a commit returns after its frames are
synced, and `fullfsync` where the platform's fsync does not reach the disk itself.
A crash at any point leaves a log that SQLite replays or discards by itself at the
next start (https://sqlite.org/wal.html).
"""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from plantstore.errors import StoreUnavailableError
from plantstore.storage.migrate import migrations

# Says whose file this is, in its header (https://sqlite.org/fileformat2.html#application_id).
APPLICATION_ID: Final = int.from_bytes(b"plst")

# How often to ask whether another process has done its write, and how often at most:
# about a second in all. SQLite's own waits grow to a tenth of a second, in which one
# that commits back to back never leaves a gap that the other one sees.
BUSY_POLL_SECONDS: Final = 0.000_3
BUSY_POLLS_MAX: Final = 3_000

# What the log is cut back to, if a long read once kept it from being copied.
LOG_BYTES_MAX: Final = 64 * 1024 * 1024


def make_file(path: str) -> None:
    """Make the file, readable to its owner alone, unless it is there.

    SQLite would make it with the mode that the umask leaves. Nothing else may open
    the file by itself: closing it would drop this process's locks on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def connect(path: str, *, migrate: bool = True) -> apsw.Connection:
    """Open a connection to a file of ours.

    Args:
        path: the file.
        migrate: bring its schema up to date, that of an empty file too; else the
            schema stays as it is.

    Raises:
        StoreUnavailableError: the file is read-only, another program's, empty and
            not to be migrated, or was written by a newer version. It is left alone.

    """
    # The absolute path: SQLite would take a name such as ":memory:" for its own.
    connection = apsw.Connection(str(Path(path).absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_handler(_wait_for_another)
    if connection.readonly("main"):
        raise StoreUnavailableError(f"The database {path} cannot be written: it is read-only")
    # Only when this returns is it known to be ours, and may be changed.
    if migrate:
        _migrate(connection, path)
    elif schema_version(connection, path) == 0:
        raise StoreUnavailableError(f"The database {path} is empty")
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        f"journal_size_limit = {LOG_BYTES_MAX}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    _sync_log(connection)
    return connection


def _sync_log(connection: apsw.Connection) -> None:
    """Sync what is in the log, by a checkpoint, before anybody is told that it is stored.

    After a crash, SQLite brings back what it finds whole in the log, synced or not.
    """
    for polls in itertools.count():
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:  # Another checkpoint runs; for this, SQLite asks no handler.
            if not _wait_for_another(polls):
                raise
        else:
            return


def _wait_for_another(polls: int) -> bool:
    time.sleep(BUSY_POLL_SECONDS)
    return polls < BUSY_POLLS_MAX


def _migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the schema up to date; the file's header counts the migrations applied."""
    steps = migrations("sqlite")
    if schema_version(connection, path) == len(steps):
        return
    with transaction(connection):
        # Many processes may start at once: look again, now that none other writes.
        for step in steps[schema_version(connection, path) :]:
            connection.execute(step)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(steps))


def schema_version(connection: apsw.Connection, path: str) -> int:
    """Return how many migrations a file has seen, which is none if it is empty.

    Raises:
        StoreUnavailableError: it is another program's, or was written by a newer
            version.

    """
    known = len(migrations("sqlite"))
    # In this order: another process may migrate between any two of these.
    objects = connection.execute("SELECT count(*) FROM sqlite_schema").get
    is_ours = connection.pragma("application_id") == APPLICATION_ID
    version: int = connection.pragma("user_version")
    if objects and not is_ours:
        raise StoreUnavailableError(f"The database {path} is another program's")
    if version > known:
        raise StoreUnavailableError(
            f"The database {path} was written by a newer Plant Store "
            f"(its schema is {version}, the newest that this one knows is {known})"
        )
    return version


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
