"""Reads a SQLite file that this user may read, but not write.

To read a file in WAL mode, SQLite locks bytes of its -shm file, and creates this file and the
log if they are missing (https://sqlite.org/wal.html#readonly). A user who may only read
cannot create them. So there are two ways to read the file:

- Both files exist: another process uses the database, or has crashed. SQLite reads the database
  and the log, and takes its locks on the existing -shm file.
- The log does not exist, or is empty: the database file holds everything. SQLite opens it as
  immutable, without any lock. A service that starts in the meantime may change the file, so the
  file's time and size are compared before and after each read.

This module never creates a file beside the database. It would belong to the wrong user, and the
service could not write it.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from plantstore.errors import StoreUnavailableError
from plantstore.storage.migrate import SchemaPolicy, prepare
from plantstore.storage.sqlite.file import SQLiteSchema, translate_errors, wait_for_another
from plantstore.storage.sqlite.guard import require_existing, require_ours
from plantstore.storage.sqlite.sqlite_maintenance import Snapshots, read_only_connection

# The kernel sets a file's time once per tick, which is at most ten milliseconds long. A file may
# change twice within one tick and keep the time of the first change.
_TICK_SECONDS: Final = 0.02


def may_write(path: str) -> bool:
    """Return whether this user may write the database as SQLite does.

    SQLite writes the database file, its log and its -shm file. It creates the last two in the
    folder if they are missing. The result is also True if there is no database file.
    """
    path = os.path.realpath(path)
    files = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
    existing = [file for file in files if os.path.exists(file)]  # noqa: PTH110 (paths are text)
    if path not in existing:
        return True
    folder = [] if existing == files else [str(Path(path).parent)]
    effective = os.access in os.supports_effective_ids
    return all(os.access(file, os.W_OK, effective_ids=effective) for file in existing + folder)


class ReadOnlySQLite(Snapshots):
    """Reads a file for an export, a check, a backup or a dry run. It needs no permission to write.

    Args:
        path: of the database file.

    Raises:
        StoreUnavailableError: the file does not exist, cannot be read, or is not a database of
            this program.

    """

    def __init__(self, path: str) -> None:
        self.name = path
        self._path = os.path.realpath(path)
        with translate_errors(f"The database {path} cannot be opened"):
            require_ours(self._path, path)
            require_existing(self._path, path)

    def close(self) -> None:
        """Do nothing: every snapshot closes its own connection."""

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[apsw.Connection]:
        log, index, journal = (Path(f"{self._path}{end}") for end in ("-wal", "-shm", "-journal"))
        if log.exists() and index.exists():
            # readonly_shm: SQLite must not try to write the -shm file.
            connection = read_only_connection(self._path, "readonly_shm=1")
            connection.set_busy_handler(wait_for_another)
            with contextlib.closing(connection):
                yield self._begun(connection)
            return
        for file in (log, journal):
            if file.exists() and file.stat().st_size:
                raise StoreUnavailableError(
                    f"The database {self.name} cannot be read without permission to write: its"
                    f" latest changes are in {file.name}; run the command as the owner of the file"
                )
        with self._unchanged():
            connection = read_only_connection(self._path, "immutable=1")
            with contextlib.closing(connection):
                yield self._begun(connection)

    def _begun(self, connection: apsw.Connection) -> apsw.Connection:
        prepare(SQLiteSchema(connection, self.name), SchemaPolicy.ACCEPT)
        connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        return connection

    @contextlib.contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raise StoreUnavailableError if another process changes the file during the block."""
        time.sleep(_TICK_SECONDS)  # a later change now gets a later time
        before = self._mark()
        try:
            yield
        finally:  # also after an error, which the change may have caused
            if self._mark() != before:
                raise StoreUnavailableError(
                    f"The database {self.name} was changed while it was read; run the command again"
                )

    def _mark(self) -> tuple[int, int, int, int]:
        file = Path(self._path).stat()
        return file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns
