"""The store in one SQLite file.

Its connections:

- `_writes` applies changes, and `_lookups` looks plants up. Each has a thread of its own.
- `_pages` are a pool for the other READS.
- `_tokens` reads tokens, and `_small_writes` writes everything but plants. Each has a lock.
- A scan takes long. It takes one of `_scans`, or opens another and leaves it there.
- A check, a backup, and what waits for changes open one of their own.

Every write transaction begins with BEGIN IMMEDIATE. So it waits for the write lock at its
beginning, and does not fail in the middle because of another process.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Final

import apsw

from plantstore.change_sets import SetPage, SetPosition
from plantstore.changes import Change, Result
from plantstore.errors import StoreUnavailableError
from plantstore.feed import ChangesPage
from plantstore.listings import (
    EVERYTHING,
    Listing,
    PlantsPage,
    TagListing,
    TagsPage,
)
from plantstore.observe import HardLinksFound, Observer, ignore
from plantstore.plants import NewPlant
from plantstore.storage.migrate import SchemaPolicy, known_version, prepare
from plantstore.storage.sqlite.checksums import (
    VERSION_BEFORE_CHECKSUMS,
    damaged,
    describe_damage,
)
from plantstore.storage.sqlite.file import (
    BUSY_POLL_SECONDS,
    connect,
    make_file,
    open_immutable,
    sync_log,
    transaction,
    translate_errors,
)
from plantstore.storage.sqlite.guard import (
    FileGuard,
    require_no_lost_files,
    require_ours,
)
from plantstore.storage.sqlite.sqlite_feed import FEED, TRIM_CHANGES, TRIMMED_MAX, executor, waiter
from plantstore.storage.sqlite.sqlite_maintenance import (
    STEP_PAGES,
    SQLiteSchema,
    check,
    copy_pages,
)
from plantstore.storage.sqlite.sqlite_pages import count_plants, select_by_id
from plantstore.storage.sqlite.sqlite_plants import (
    create_plants,
    prepare_creates,
    require_creates,
    write_changes,
)
from plantstore.storage.sqlite.sqlite_searches import prepare_searches, scan_pages, select_page
from plantstore.storage.sqlite.sqlite_tags import select_tags
from plantstore.storage.sqlite.wal import EXPORT_LOG_BYTES_MAX, LOG_BYTES_MAX, WalLimit, log_bytes
from plantstore.storage.sqlite.word_index import index_next, merge, start_over
from plantstore.storage.tables import LatestTags, TokenAndIdTables
from plantstore.store import (
    MAINTENANCE_RETRY_SECONDS,
    MAINTENANCE_SECONDS,
    READS_AT_ONCE,
    CheckReport,
    OnDamaged,
    OnNumber,
)

# Size of the page cache of the connection that writes. A large batch of plants with many tags
# changes more pages than fit into the 2 MiB of SQLite's default. It would write them several times.
CACHE_KIB: Final = 8 * 1024

# The pause after each transaction of a reindex. Processes that wait to write poll more often.
INDEX_PAUSE_SECONDS: Final = 4 * BUSY_POLL_SECONDS

# SQLite opens the log, and begins a snapshot, with the first read.
_OPEN_LOG: Final = "SELECT count(*) FROM sqlite_schema"
_BEGIN: Final = f"BEGIN; {_OPEN_LOG}"

_CANNOT_READ: Final = "The database cannot be read"
_CANNOT_WRITE: Final = "The database cannot be written"


class SQLiteStore(TokenAndIdTables):
    """Keeps plants and tokens in a file.

    Args:
        path: of the file.
        policy: what to do about its schema. With MIGRATE or CREATE, a missing file is created,
            readable only by its owner.
        observe: is called when a store is created, with the progress of a migration, and if the
            file has hard links.
        monotonic: a clock in seconds that never goes back.
        log_bytes_max: the write-ahead log is restarted before it is longer than this, except
            beside a long read.

    Raises:
        StoreUnavailableError: the file does not exist, cannot be opened, is not a database,
            belongs to another program, or its schema is refused by the policy.

    """

    placeholder: ClassVar = "?"
    greatest: ClassVar = "max"

    def __init__(
        self,
        path: str,
        policy: SchemaPolicy = SchemaPolicy.MIGRATE,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        observe: Observer = ignore,
        log_bytes_max: int = LOG_BYTES_MAX,
    ) -> None:
        self._name = path
        # SQLite puts the log beside the file that a symbolic link points to. An absolute path
        # also avoids names with a special meaning in SQLite, such as ":memory:".
        self._path = os.path.realpath(path)
        self._latest_tags = LatestTags()
        self._tokens_lock = threading.Lock()
        self._small_writes_lock = threading.Lock()
        with translate_errors(f"The database {path} cannot be opened"):
            require_ours(self._path, path, may_create=policy.may_create)
            if policy.may_create:
                make_file(self._path)
            self._open(policy, monotonic, observe, log_bytes_max)
        if Path(self._path).stat().st_nlink > 1:
            observe(HardLinksFound(self._path))

    def _open(
        self,
        policy: SchemaPolicy,
        monotonic: Callable[[], float],
        observe: Observer,
        log_bytes_max: int,
    ) -> None:
        require_no_lost_files(self._path, self._name)
        self._writes = self._connect(policy, observe)
        self._writes.pragma("cache_size", -CACHE_KIB)
        prepare_creates(self._writes)
        if policy is SchemaPolicy.ACCEPT:  # commands with this policy only read
            self._writes.execute(_OPEN_LOG).fetchall()
        else:
            require_creates(self._writes)
            sync_log(self._writes)
        self._guard = FileGuard(self._path)
        self._lookups, self._tokens, self._small_writes = (self._connect(policy) for _ in range(3))
        pages = [self._connect(policy) for _ in range(READS_AT_ONCE - 1)]  # all but lookups
        for connection in (self._writes, self._small_writes):
            connection.pragma("journal_size_limit", log_bytes_max)
        self._pages = pages
        self._free_pages: SimpleQueue[apsw.Connection] = SimpleQueue()
        for connection in pages:
            prepare_searches(connection)
            self._free_pages.put(connection)
        self._scans: SimpleQueue[apsw.Connection] = SimpleQueue()
        # Each connection has opened the log by its path.
        self._guard.require_files()
        self._wal_limit = WalLimit(
            self._writes, self._guard.refuse_changes, log_bytes_max, monotonic
        )
        self._untrimmed = 0  # changes since the feed was trimmed
        self._watchers: tuple[threading.Event, ...] = ()

    def _connect(
        self, policy: SchemaPolicy = SchemaPolicy.ACCEPT, observe: Observer = ignore
    ) -> apsw.Connection:
        def prepare_schema(connection: apsw.Connection) -> None:
            prepare(SQLiteSchema(connection, self._name), policy, observe)

        return connect(self._path, prepare_schema)

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        with translate_errors(_CANNOT_WRITE):
            with self._guard.checked():
                outcomes = create_plants(self._writes, changes)
                if outcomes is None:
                    with transaction(self._writes):
                        outcomes = write_changes(self._writes, changes)
                self._untrimmed += len(changes)
                if self._untrimmed >= TRIM_CHANGES:
                    self._trim_feed()
            self._wal_limit.bound()
        for watcher in self._watchers:
            watcher.set()
        return outcomes

    def _trim_feed(self) -> None:
        changes_max = 2 * self._untrimmed  # faster than they come
        self._untrimmed = 0  # after a failure, wait as long as after a success
        # The changes of the batch are made, whatever fails here.
        with contextlib.suppress(StoreUnavailableError, apsw.Error), transaction(self._writes):
            FEED.trim(executor(self._writes), changes_max)

    def maintain(self) -> float:
        try:
            with translate_errors(_CANNOT_WRITE):
                with self._guard.checked(), transaction(self._writes):
                    has_more = FEED.trim(executor(self._writes), TRIMMED_MAX)
                if not has_more:
                    with self._indexing() as connection:
                        has_more = merge(connection)
                if has_more:
                    self._wal_limit.bound()
                    return 0
                return MAINTENANCE_SECONDS if self._wal_limit.trim() else MAINTENANCE_RETRY_SECONDS
        except StoreUnavailableError:
            return MAINTENANCE_RETRY_SECONDS

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        with translate_errors(_CANNOT_READ):
            return select_by_id(self._lookups, ids)

    def list_plants(self, listing: Listing) -> PlantsPage:
        with self._reading_page() as connection:
            return select_page(connection, listing)

    def list_tags(self, listing: TagListing) -> TagsPage:
        with self._reading_page() as connection:
            number = FEED.last_number(executor(connection))
            return self._latest_tags.read(listing, number, lambda: select_tags(connection, listing))

    def keep_changes(self, days: int) -> None:
        with self._changing():
            FEED.keep(executor(self._small_writes), days)

    def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        with self._reading_page() as connection:
            return FEED.read(executor(connection), after, limit)

    def read_set(self, name: str, after: SetPosition | None, limit: int) -> SetPage:
        with self._reading_page() as connection:
            return FEED.read_set(executor(connection), name, after, limit)

    @contextlib.contextmanager
    def watch_changes(self) -> Iterator[Callable[[float], bool]]:
        with translate_errors(_CANNOT_READ):
            self._guard.require_files()
            with contextlib.closing(self._connect()) as connection:
                watcher = threading.Event()
                self._watchers += (watcher,)
                try:
                    yield waiter(connection, watcher)
                finally:
                    self._watchers = tuple(each for each in self._watchers if each is not watcher)

    def scan_plants(
        self,
        listing: Listing = EVERYTHING,
        on_number: OnNumber | None = None,
        on_damaged: OnDamaged | None = None,
    ) -> Generator[list[NewPlant], None, None]:
        with translate_errors(_CANNOT_READ), self._scanning() as connection:
            if on_number is not None:
                on_number(FEED.last_number(executor(connection)))
            if listing.place is not None or not listing.is_everything:
                prepare_searches(connection)
            version = known_version(SQLiteSchema(connection, self._name))
            for plants in scan_pages(connection, listing):
                if on_damaged is not None and version > VERSION_BEFORE_CHECKSUMS:
                    on_damaged(damaged(connection, plants))
                yield plants

    def has_room_for_export(self) -> bool:
        # Open snapshots keep SQLite from restarting the log. If exports overlapped without a gap,
        # the log would grow without end.
        with translate_errors(_CANNOT_READ):
            return log_bytes(self._path) <= EXPORT_LOG_BYTES_MAX

    def count_plants(self) -> int:
        with translate_errors(_CANNOT_READ), self._snapshot() as connection:
            return count_plants(connection)

    def check(self) -> CheckReport:
        with translate_errors(_CANNOT_READ), self._snapshot() as connection:
            return check(connection, self._name)

    def back_up(
        self, path: str, progress: Callable[[int, int], None], *, step_pages: int = STEP_PAGES
    ) -> CheckReport:
        with translate_errors("The database cannot be backed up"):
            with self._snapshot() as connection:
                copy_pages(connection, path, progress, step_pages)
            with contextlib.closing(open_immutable(path)) as copy:
                return check(copy, path)

    def check_readable(self) -> None:
        with self._reading_page() as connection:
            self._guard.require_files()
            count_plants(connection)

    def check_writable(self) -> None:
        with self._changing():
            # SQLite writes the page even though the value stays the same. The schema is
            # unchanged.
            self._small_writes.pragma("user_version", self._small_writes.pragma("user_version"))

    def reindex(self, progress: Callable[[int, int], None]) -> str | None:
        with translate_errors(_CANNOT_WRITE):
            with self._indexing() as connection:
                start_over(connection)
            done, indexed = 0, 1
            while indexed:
                with self._indexing() as connection:
                    indexed = index_next(connection)
                    total = count_plants(connection)
                done += indexed
                progress(done, max(total, done))
                time.sleep(INDEX_PAUSE_SECONDS)
            with self._snapshot() as connection:
                return describe_damage(connection)

    def close(self) -> None:
        connections = [self._writes, self._lookups, *self._pages, self._tokens]
        while not self._scans.empty():
            connections.append(self._scans.get())
        with self._small_writes_lock, self._tokens_lock:
            self._guard.close([*connections, self._small_writes])

    @contextlib.contextmanager
    def _reading_page(self) -> Iterator[apsw.Connection]:
        """Give a connection of the pool to the block, once one is free."""
        connection = self._free_pages.get()
        try:
            with translate_errors(_CANNOT_READ):
                yield connection
        finally:
            self._free_pages.put(connection)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        with (
            translate_errors(_CANNOT_WRITE),
            self._small_writes_lock,
            self._guard.checked(),
            transaction(self._small_writes),
        ):
            yield

    @contextlib.contextmanager
    def _indexing(self) -> Iterator[apsw.Connection]:
        with self._guard.checked(), transaction(self._writes):
            yield self._writes
        self._wal_limit.bound()

    @contextlib.contextmanager
    def _scanning(self) -> Iterator[apsw.Connection]:
        """Give a connection of `_scans` to the block. It reads one snapshot of the database."""
        self._guard.require_files()
        try:
            connection = self._scans.get_nowait()
        except Empty:
            connection = self._connect()
        try:
            connection.execute(_BEGIN).fetchall()
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        self._scans.put(connection)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[apsw.Connection]:
        """Open a connection for the block. It reads one snapshot of the database."""
        self._guard.require_files()
        with contextlib.closing(self._connect()) as connection:
            connection.execute(_BEGIN).fetchall()
            yield connection

    def _read(self, query: str, *values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 (what SQLite stores)
        with translate_errors(_CANNOT_READ), self._tokens_lock:
            return self._tokens.execute(query, values).fetchall()

    def _change(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401 (what SQLite stores)
        with self._changing():
            return self._small_writes.execute(statement, values).fetchall()
