"""Opens SQLite files, writes them durably, and translates the errors of SQLite.

Durability: the file is in WAL mode with `synchronous=FULL`. So a commit returns after its part
of the log is synced. `fullfsync` is on, for platforms whose fsync does not flush the disk's
cache. After a crash, SQLite replays the complete transactions of the log and discards the rest
at the next start (https://sqlite.org/wal.html).
"""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import apsw
import msgspec

from plantstore.errors import BatchRefusedError, NothingDoneError, StoreUnavailableError
from plantstore.storage.migrate import require_same

# Marks our files, in the header (https://sqlite.org/fileformat2.html#application_id).
APPLICATION_ID: Final = int.from_bytes(b"plst")

# The name of the engine, as the files of its migrations have it.
ENGINE: Final = "sqlite"

# Interval and maximum number of retries while another process holds a lock: about a second in
# all. The intervals of SQLite's own busy timeout grow to a tenth of a second. If another process
# commits without pause, such rare retries would hardly ever fall between two of its commits.
BUSY_POLL_SECONDS: Final = 0.000_3
BUSY_POLLS_MAX: Final = 3_000

# Size of the pages of a new file; other files keep theirs. Each random id changes another page of
# the table, and all of the page is written to the log and later to the file.
PAGE_BYTES: Final = 2048

# Size of the pieces in which `sync_log` writes. SQLite passes sizes modulo 128 KiB to the
# kernel, and treats a write of 0 bytes as a full disk.
_PIECE_BYTES: Final = 64 * 1024


def set_up_sqlite() -> None:
    """Configure SQLite for this process. Call it before any database is opened.

    SQLite does not count the memory that it uses: with the counts, a create takes 2 % more.
    """
    apsw.shutdown()
    apsw.config(apsw.SQLITE_CONFIG_MEMSTATUS, 0)
    apsw.initialize()


def make_file(path: str) -> None:
    """Create the file, readable only by its owner, unless it exists.

    SQLite would create it with the mode that the umask allows. This is the only place where
    the file is opened without SQLite: closing such a file drops the process's locks on it.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def wait_for_another(polls: int) -> bool:
    """Wait for another process, and return whether to try again. This is a busy handler."""
    time.sleep(BUSY_POLL_SECONDS)
    return polls < BUSY_POLLS_MAX


def connect(
    path: str,
    prepare: Callable[[apsw.Connection], object],
    *,
    wait: Callable[[int], bool] = wait_for_another,
) -> apsw.Connection:
    """Open a connection to the database file.

    Args:
        path: of the file.
        prepare: checks that the database is ours, and may migrate it.
        wait: the busy handler.

    """
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE)
    # A database that is refused below may be another program's, and keeps its log.
    is_logged = os.path.exists(f"{path}-wal")  # noqa: PTH110 (paths are text here)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(is_logged))
    connection.set_busy_handler(wait)
    connection.pragma("page_size", PAGE_BYTES)
    connection.pragma("synchronous", "FULL")
    connection.pragma("fullfsync", "ON")
    connection.pragma("checkpoint_fullfsync", "ON")
    prepare(connection)  # nothing before it may change the file
    _use_log(connection, wait)
    # Only `WalLimit` makes checkpoints, since SQLite ignores their failures, and `FileGuard.close`
    # after it has checked the files.
    connection.wal_autocheckpoint(0)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    return connection


def open_immutable(path: str) -> apsw.Connection:
    """Open a file without its log. SQLite locks nothing, and neither creates nor changes a file."""
    return apsw.Connection(
        f"{Path(path).absolute().as_uri()}?immutable=1",  # https://sqlite.org/uri.html
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )


def sync_log(connection: apsw.Connection) -> None:
    """Write the log again and sync it, before anybody relies on its content after a crash.

    SQLite accepts any complete transaction in the log, even if its sync failed or never
    happened. Such data may exist only in the kernel's cache, and the kernel may never try to
    write it again after a failure. Writing the same data again makes the pages dirty, and the
    sync then covers them.
    """
    flags = [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE, 0]
    with (
        transaction(connection, of_any_version=True),  # it keeps other writers out
        opened(connection.filename_wal, flags) as log,
    ):
        size = log.xFileSize()
        for start in range(0, size, _PIECE_BYTES):
            log.xWrite(log.xRead(min(_PIECE_BYTES, size - start), start), start)
        log.xSync(apsw.SQLITE_SYNC_FULL)


@contextlib.contextmanager
def opened(path: str, flags: list[int]) -> Iterator[apsw.VFSFile]:
    """Open a file of a database as SQLite does.

    SQLite closes it only after this process has released its locks on it. Python would close it at
    once, and the locks would be lost.
    """
    file = apsw.VFSFile("", path, flags)
    try:
        yield file
    finally:
        file.xClose()


def _use_log(connection: apsw.Connection, wait: Callable[[int], bool]) -> None:
    """Use a write-ahead log. SQLite calls the busy handler for some of the locks only."""
    connection.set_busy_handler(None)
    for polls in itertools.count():
        try:
            connection.pragma("journal_mode", "WAL")
            break
        except apsw.BusyError:
            if not wait(polls):
                raise
    connection.set_busy_handler(wait)


def require_application(is_empty: bool, application_id: int, name: str) -> None:  # noqa: FBT001 (a fact about the file)
    """Raise StoreUnavailableError if a database belongs to another program."""
    if application_id != APPLICATION_ID and (application_id or not is_empty):
        raise StoreUnavailableError(
            f"The database {name} is another program's; name another file with --database"
        )


@contextlib.contextmanager
def transaction(connection: apsw.Connection, *, of_any_version: bool = False) -> Iterator[None]:
    """Run the block in a write transaction; roll back if it raises an exception.

    apsw's own `with connection` holds the interpreter lock while it waits for the disk or for
    another process, which would block the event loop.

    Args:
        connection: to the database.
        of_any_version: whether the block may write to a schema of another version.

    Raises:
        NothingDoneError: the schema has another version. The block was not run.

    """
    try:
        # Nobody can migrate while this transaction has the write lock. One call for both statements
        # takes hardly longer than one for the first.
        version: int = connection.execute("BEGIN IMMEDIATE; PRAGMA user_version").get
        if not of_any_version:
            require_same(ENGINE, version)
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise StoreUnavailableError for errors of the storage; let programming errors pass.

    Args:
        what: the beginning of the message.

    Raises:
        BatchRefusedError: the operator has added a trigger that refuses a row.
        NothingDoneError: another process kept the lock. SQLite waits for it before it writes.
        StoreUnavailableError: the storage caused the error.

    """
    try:
        yield
    except apsw.BusyError as error:
        raise NothingDoneError(f"{what}: {error}") from error
    except apsw.ConstraintError as error:
        raise BatchRefusedError(what, str(error)) from error
    except (apsw.CorruptError, apsw.SQLError) as error:  # SQLError: no such column, for example
        raise StoreUnavailableError(
            f"{what}, because it is damaged, or another program changed its schema: {error}; run"
            " `plantstore check`, or restore a backup"
        ) from error
    except (
        OSError,
        msgspec.DecodeError,  # the file holds damaged data
        UnicodeDecodeError,
        apsw.CantOpenError,
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
