"""The store in a PostgreSQL database.

The store has as many connections as threads that use it at once. Two are each behind a lock: one
reads tokens, and one writes everything but plants. A scan, a check, or what waits for changes opens
a connection of its own, because it takes long.

Any number of stores, in any number of processes, may use one database: a store caches nothing but
pages of tags, until the next change.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import ClassVar, Final

from psycopg.rows import TupleRow

from plantstore.change_sets import SetPage, SetPosition
from plantstore.changes import Change, Result
from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.feed import ChangesPage
from plantstore.listings import (
    EVERYTHING,
    Listing,
    PlantsPage,
    TagListing,
    TagsPage,
    scan,
)
from plantstore.observe import Observer, ignore
from plantstore.plants import NewPlant
from plantstore.storage.migrate import SchemaPolicy, prepare
from plantstore.storage.postgres.postgres_feed import FEED, TRIMMED_MAX, waiter
from plantstore.storage.postgres.postgres_maintenance import (
    PostgresSchema,
    check,
    count_plants,
    grant,
    reindex,
    require_rights,
    require_role,
)
from plantstore.storage.postgres.postgres_pages import select_by_id, select_page, select_tags
from plantstore.storage.postgres.postgres_plants import MARK, SLOTS, mark, write_changes
from plantstore.storage.postgres.primary import Primary
from plantstore.storage.postgres.session import (
    GRACE_SECONDS,
    Connection,
    fenced,
    require_sessions,
    translate_errors,
)
from plantstore.storage.tables import LatestTags, TokenAndIdTables
from plantstore.store import MAINTENANCE_SECONDS, CheckReport, OnDamaged, OnNumber

_CANNOT_READ: Final = "The database cannot be read"
_CANNOT_WRITE: Final = "The database cannot be written"


# The pause after a look for changes to trim that found few, also beside commits.
TRIM_SECONDS: Final = 1.0


class PostgresStore(TokenAndIdTables):
    """Keeps plants and tokens in a database.

    Args:
        url: of the database, in the form of libpq
            (https://www.postgresql.org/docs/current/libpq-connect.html).
        database: its name in messages.
        policy: what to do about its schema.
        standbys_min: minimum number of synchronous standbys that a commit must wait for.
        grace_seconds: how long to wait for a server after its own timeouts.
        observe: is called when the primary or its state changes, and with the progress of a
            migration.
        grant_to: the role that gets the rights to use the tables.

    Raises:
        UsageError: the URL is malformed.
        OperationError: the database has no such role.
        StoreUnavailableError: the database cannot be reached, belongs to another program, or
            its schema is refused by the policy.

    """

    placeholder: ClassVar = "%s"
    greatest: ClassVar = "greatest"

    def __init__(
        self,
        url: str,
        database: str,
        policy: SchemaPolicy = SchemaPolicy.MIGRATE,
        *,
        standbys_min: int = 0,
        grace_seconds: float = GRACE_SECONDS,
        observe: Observer = ignore,
        grant_to: str | None = None,
    ) -> None:
        self._database = database
        self._primary = Primary(
            url, observe=observe, standbys_min=standbys_min, grace_seconds=grace_seconds
        )
        with self._connected(f"{database} cannot be opened") as connection:
            require_sessions(connection, self._primary.connect)
            if grant_to is not None:
                require_role(connection, grant_to)
            prepare(PostgresSchema(connection, database), policy, observe)
            if grant_to is not None:
                grant(connection, grant_to)
        self._slot = random.randrange(SLOTS)  # noqa: S311
        self._latest_tags = LatestTags()
        self._tokens_lock = threading.Lock()
        self._others_lock = threading.Lock()
        self._trim_at = 0.0

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        with self._writing() as connection:
            results = write_changes(connection, changes, self._slot)
        if time.monotonic() >= self._trim_at:
            with contextlib.suppress(StoreUnavailableError):  # the changes are made
                self._trim(2 * len(changes))
        return results

    def maintain(self) -> float:
        return self._trim()

    def _trim(self, changes_max: int = 0) -> float:
        """Trim the feed. Return what `maintain` does."""
        with self._writing() as connection:
            with fenced(connection):
                has_more = FEED.trim(connection.fetch, max(TRIMMED_MAX, changes_max))
            if has_more:
                return 0
            self._primary.report(connection)
        self._trim_at = time.monotonic() + TRIM_SECONDS
        return MAINTENANCE_SECONDS

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        with self._reading() as connection:
            return select_by_id(connection, ids)

    def list_plants(self, listing: Listing) -> PlantsPage:
        with self._reading() as connection:
            return select_page(connection, listing)

    def list_tags(self, listing: TagListing) -> TagsPage:
        with self._reading() as connection:
            number = FEED.last_number(connection.fetch)
            return self._latest_tags.read(listing, number, lambda: select_tags(connection, listing))

    def keep_changes(self, days: int) -> None:
        # A service starts even if there are too few standbys. `_writing` would refuse them.
        with self._primary.using(_CANNOT_WRITE) as connection:
            with fenced(connection):
                is_new = FEED.keep(connection.fetch, days)
            if is_new:
                connection.require_standbys()

    def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        with self._reading() as connection:
            page = FEED.read(connection.fetch, after, limit)
            if page.items and (connection.standbys_min or connection.count_standbys()):
                mark(connection, self._slot)
                connection.require_standbys()
            return page

    def read_set(self, name: str, after: SetPosition | None, limit: int) -> SetPage:
        with self._reading() as connection:
            return FEED.read_set(connection.fetch, name, after, limit)

    @contextlib.contextmanager
    def watch_changes(self) -> Iterator[Callable[[float], bool]]:
        with self._connected(_CANNOT_READ, has_timeout=True) as connection:
            yield waiter(connection, self._primary.is_current)

    def scan_plants(
        self,
        listing: Listing = EVERYTHING,
        on_number: OnNumber | None = None,
        on_damaged: OnDamaged | None = None,  # noqa: ARG002 (the server checks its pages)
    ) -> Generator[list[NewPlant], None, None]:
        # A page takes no longer than one of `list_plants`. A server that hangs must not keep the
        # thread forever.
        with self._snapshot(has_timeout=True) as connection:
            if on_number is not None:
                on_number(FEED.last_number(connection.fetch))
            yield from scan(partial(select_page, connection, is_scan=True), listing)

    def has_room_for_export(self) -> bool:
        # The age of a snapshot is limited, and with it what the server must keep, however many
        # snapshots there are.
        return True

    def count_plants(self) -> int:
        with self._snapshot() as connection:
            return count_plants(connection)

    def check_readable(self) -> None:
        self.find_plants([0])

    def check_writable(self) -> None:
        with self._others_lock, self._writing() as connection:
            require_rights(connection, _CANNOT_WRITE)
        self._change(MARK, self._slot)

    def check(self) -> CheckReport:
        with self._snapshot() as connection:
            return check(connection, self._database)

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> CheckReport:  # noqa: ARG002
        raise UsageError(
            "plantstore cannot back up PostgreSQL; use pg_dump for this database, or pg_basebackup"
            " for the whole server"
        )

    def reindex(self, progress: Callable[[int, int], None]) -> None:
        with self._connected(_CANNOT_WRITE, for_writes=True) as connection:
            reindex(connection, self._slot, progress)

    def close(self) -> None:
        self._primary.close()

    def _read(self, query: str, *values: object) -> list[TupleRow]:
        with self._tokens_lock, self._reading() as connection:
            return connection.fetch(query, values)

    def _change(self, statement: str, *values: object) -> list[TupleRow]:
        with self._others_lock, self._writing() as connection:
            with fenced(connection):
                rows = connection.fetch(statement, values)
            connection.require_standbys()
        return rows

    def _reading(self) -> AbstractContextManager[Connection]:
        return self._primary.using(_CANNOT_READ)

    def _writing(self) -> AbstractContextManager[Connection]:
        return self._primary.using(_CANNOT_WRITE, for_writes=True)

    @contextlib.contextmanager
    def _connected(
        self, what: str, *, has_timeout: bool = False, for_writes: bool = False
    ) -> Iterator[Connection]:
        """Open a connection for the block.

        Args:
            what: the message of an error that the block raises.
            has_timeout: whether statements have a time limit.
            for_writes: whether the block changes something.

        """
        connection = self._primary.connect(has_timeout=has_timeout, for_writes=for_writes)
        with contextlib.closing(connection), translate_errors(what):
            yield connection

    @contextlib.contextmanager
    def _snapshot(self, *, has_timeout: bool = False) -> Iterator[Connection]:
        """Open a connection for the block. It reads one snapshot of the database."""
        with self._connected(_CANNOT_READ, has_timeout=has_timeout) as connection:
            # The transaction ends when the connection is closed. A ROLLBACK would wait for a
            # server that hangs.
            # A check makes temporary tables, also in a database that is read-only.
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE")
            yield connection
