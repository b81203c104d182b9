"""Export, check and backup of a SQLite file. Each of them reads one snapshot."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from functools import partial

import apsw

from plantstore.errors import StoreUnavailableError
from plantstore.listings import EVERYTHING, SCAN_PLANTS_MAX, Listing, scan
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import translate_errors
from plantstore.storage.sqlite.log import EXPORT_LOG_BYTES_MAX, log_bytes
from plantstore.storage.sqlite.maintenance import (
    STEP_PAGES,
    check,
    copy_pages,
    count_plants,
    open_immutable,
)
from plantstore.storage.sqlite.pages import prepare_searches, select_page
from plantstore.store import CheckReport

CANNOT_READ = "The database cannot be read"


class Snapshots(ABC):
    """Implements the reads of `plantstore.store.Maintenance` for a SQLite file."""

    name: str
    """The name of the database in messages."""

    _path: str

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[apsw.Connection]:
        """Open a connection for the block. It reads one snapshot of the database."""

    def scan_plants(self, listing: Listing = EVERYTHING) -> Generator[list[NewPlant], None, None]:
        listing = listing._replace(limit=SCAN_PLANTS_MAX)
        with translate_errors(CANNOT_READ), self._snapshot() as connection:
            if not listing.is_everything:
                prepare_searches(connection)
            yield from scan(partial(select_page, connection), listing)

    def has_room_for_export(self) -> bool:
        # Open snapshots keep SQLite from restarting the log. If exports overlapped without a gap,
        # the log would grow without end.
        with translate_errors(CANNOT_READ):
            return log_bytes(f"{self._path}-wal") <= EXPORT_LOG_BYTES_MAX

    def count_plants(self) -> int:
        with translate_errors(CANNOT_READ), self._snapshot() as connection:
            return count_plants(connection, self.name)

    def check(self) -> CheckReport:
        with translate_errors(CANNOT_READ), self._snapshot() as connection:
            return check(connection, self.name)

    def back_up(
        self, path: str, progress: Callable[[int, int], None], *, step_pages: int = STEP_PAGES
    ) -> CheckReport:
        with translate_errors("The database cannot be backed up"):
            with self._snapshot() as connection:
                copy_pages(connection, path, progress, step_pages)
            with contextlib.closing(open_immutable(path)) as copy:
                found = check(copy, path)
        if found.problems:
            raise StoreUnavailableError(
                f"The copy has errors: {'; '.join(found.problems)}; run `plantstore check`"
            )
        return found
