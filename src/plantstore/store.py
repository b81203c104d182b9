"""The interface of all stores: plants, tokens and maintenance.

The tests in tests/contract run against every store and check the promises of these docstrings.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeAlias

from plantstore.change_sets import SetPage, SetPosition
from plantstore.changes import Change, Result
from plantstore.feed import ChangesPage
from plantstore.listings import EVERYTHING, Listing, PlantsPage, TagListing, TagsPage
from plantstore.plants import NewPlant
from plantstore.tokens import TokenRecord


class Reads(NamedTuple):
    """How a service runs reads of one kind.

    No read waits for one of another kind, except on SQLite: there `Tail`, `check_readable`, and the
    search of a CSV export for empty tags share the connections, and each may wait for the others.

    Attributes:
        threads: number of threads that read, each with a connection of its own.
        batch_max: maximum number of reads in one call of a thread. It limits how long the first
            read of a batch waits, and how much the event loop has to send in one iteration.

    """

    threads: int
    batch_max: int


# By the name of the method; `search` is `list_plants` of a listing that may examine other plants.
READS: Final = {
    # A batch is one query. With 16, a lookup takes 63 instead of 43 microseconds of CPU time,
    # because the threads wait for each other more often.
    "find_plants": Reads(threads=1, batch_max=64),
    # Two threads would mostly wait for the interpreter lock, and be slower than one.
    "list_plants": Reads(threads=1, batch_max=16),
    # A listing that may examine other plants too. During most of it, the engine needs no
    # interpreter lock, so two threads use two cores.
    "search": Reads(threads=2, batch_max=1),
    # To count all tags takes as long as a search. Those who wait for the same page share it.
    "list_tags": Reads(threads=1, batch_max=16),
    # Many followers may catch up at once. A read that is refused affects no other.
    "read_changes": Reads(threads=1, batch_max=1),
    "read_set": Reads(threads=1, batch_max=1),
}
READS_AT_ONCE: Final = sum(reads.threads for reads in READS.values())

# Connections of a process to PostgreSQL, besides those of exports. Six are not for READS: one
# applies changes, one reads tokens, one writes everything else, one is for `check_readable`, and
# `Tail` has two: one waits for changes, and one reads them.
POSTGRES_CONNECTIONS_MAX: Final = READS_AT_ONCE + 6

# How long an idle store is left alone after `maintain`, and after one that something prevented.
MAINTENANCE_SECONDS: Final = 5.0
MAINTENANCE_RETRY_SECONDS: Final = 1.0


# Takes the number of the last change in a snapshot, or None if the feed is off.
OnNumber: TypeAlias = Callable[[int | None], object]

# Takes the ids of the damaged plants in the next list.
OnDamaged: TypeAlias = Callable[[list[int]], object]


class Remedy(Enum):
    """What to do about the problems that a check has found."""

    REINDEX = "reindex"
    RESTORE = "restore"


class CheckReport(NamedTuple):
    """The result of a check.

    Attributes:
        schema: its version.
        plants: their number.
        tokens: their number.
        problems: one line per problem; empty if all is well.
        remedy: REINDEX if `reindex` repairs some of the problems, RESTORE if the database is
            damaged, so that only a backup helps.
        notes: one line for each fact that is no problem.

    """

    schema: int
    plants: int
    tokens: int
    problems: list[str]
    remedy: Remedy | None = None
    notes: Sequence[str] = ()


class PlantStore(Protocol):
    """The plants of a store.

    Threads: at most one thread at a time may call `apply_changes` and `maintain`, and at most one
    `find_plants`, which may be another thread. Any thread may call the other methods at any time.
    As many reads of each kind run at once as READS has threads for it.

    A read sees every change that any process completed before the read began. Reads never
    block changes.

    Every method raises StoreUnavailableError if the storage cannot be read, or written; `maintain`
    may also return as if there was nothing to do. A later call may succeed. If the schema has
    another version than this program knows, nothing is written, and the error is NothingDoneError.
    """

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        """Apply a batch of changes durably, in one transaction.

        When this method returns, the changes survive a crash and a power cut. The results
        are in the order of the changes. They are the same as if each change had been applied
        alone, one after the other: a change sees the earlier changes of its own batch. Other
        processes may apply changes at the same time; the result is always that of some
        sequential order.

        Raises:
            NothingDoneError: no change was applied.
            BatchRefusedError: no change was applied, because one of several was refused. Apply
                parts of them by themselves.
            StoreUnavailableError: each change was applied completely or not at all. Which
                ones were applied is unknown until the storage is available again.

        """
        ...

    def maintain(self) -> float:
        """Free a little disk space, and merge a little of an index. Call this while idle.

        Returns:
            The seconds after which it should be called again; 0 if there is more to do now.

        """
        ...

    def hand_out_ids(self, count: int) -> range:
        """Return `count` consecutive ids that nobody else gets.

        They are greater than 0, than the id of every plant that is stored when the call begins,
        and than all ids handed out before, by any process. This is durable when the method
        returns: after a crash or a power cut, none of them is handed out again.

        The ids are not reserved: a plant may be created under any id.

        Raises:
            OperationError: fewer ids are left up to 2^63 - 1. None was handed out.
            NothingDoneError: none was handed out.

        """
        ...

    def check_readable(self) -> None:
        """Check that plants can be read, and that the database was not lost. It writes nothing."""
        ...

    def check_writable(self) -> None:
        """Check that plants can be read and written: write something small, and sync it."""
        ...

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        """Return the stored plants among these ids, by id."""
        ...

    def list_plants(self, listing: Listing) -> PlantsPage:
        """Return the next plants of a listing.

        The cost depends on the size of the page, hardly on where it begins. In order by name, the
        engine also sorts all plants with the words or the tag, unless they are too many. A page may
        hold fewer plants than `limit`, so that plants with very long names do not fill the memory
        (PAGE_BYTES_MAX), and so that a search ends soon. Unless the listing has words or a tag, it
        holds at least one plant if any is left.

        Plants and total are of one snapshot. The total of all plants is exact. One of plants with
        a tag or with words is exact up to COUNT_MAX, or up to the plants that a search may examine.
        """
        ...

    def list_tags(self, listing: TagListing) -> TagsPage:
        """Return the next tags with the numbers of their plants.

        This counts all plants, unless the feed is on and has no change since the last count. The
        memory is that of a page, however many tags there are. A page may hold fewer tags than
        `limit`, as a page of plants may. Tags and numbers are of one snapshot. One call runs at a
        time.
        """
        ...

    # The feed. While it is on, each change that `apply_changes` makes is in it exactly if it is
    # stored. A plant that one batch creates and deletes is left out. In a new store, it is off.

    def keep_changes(self, days: int) -> None:
        """Set how long the feed keeps changes, for all processes: in days; 0 switches it off.

        A feed that is switched on begins after a new number. Only in a store that never had a plant
        it begins after 0.
        """
        ...

    def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        """Return the next changes after a number, in order; for None, none and the last number.

        No later call returns a change with a lower number than the end of this page. What is
        returned is as durable as a change that is confirmed. A page may hold fewer changes than
        `limit`, as a page of plants may. Any thread may call this.

        Raises:
            FeedError: the feed is off, does not keep all changes after the number, or never had it.

        """
        ...

    # Change sets (`plantstore.change_sets`). While the feed is on, each change in a set that is
    # made is recorded with its set. A change whose set is closed is not made.

    def read_set(self, name: str, after: SetPosition | None, limit: int) -> SetPage:
        """Return the next changes of a set, in order of id and number.

        A page has none only if none follow, or if the limit is 0. It may hold fewer changes than
        `limit`, as a page of plants may.

        Raises:
            FeedError: the feed is off, there is no such set, or its first change is trimmed.

        """
        ...

    def close_set(self, name: str) -> None:
        """Close a set durably, if there is one. No change is in it that is made later.

        Any thread may call this.
        """
        ...

    def watch_changes(self) -> AbstractContextManager[Callable[[float], bool]]:
        """Wait for changes in the block, with a function that one thread calls.

        It waits for some seconds at most, and returns whether there may be changes since its last
        call, or since the beginning of the block. It raises StoreUnavailableError if it would
        notice no more changes.
        """
        ...


class TokenStore(Protocol):
    """The tokens of a store. Any thread may call any method at any time.

    Every method raises StoreUnavailableError if the storage cannot be read or written. If the
    schema has another version than this program knows, nothing is written, and the error is
    NothingDoneError.
    """

    def add_token(self, record: TokenRecord) -> None:
        """Store a token.

        Raises:
            OperationError: another token has this name. It may be expired or revoked.

        """
        ...

    def find_token(self, digest: bytes) -> TokenRecord | None:
        """Return the token with this SHA-256, or None. It may be expired or revoked."""
        ...

    def list_tokens(self) -> list[TokenRecord]:
        """Return all tokens by time of creation, then by name."""
        ...

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        """Revoke a token, and return its new state.

        A token that is already revoked keeps the time of its first revocation.

        Raises:
            OperationError: no token has this name.

        """
        ...

    def forget_token(self, digest: bytes) -> None:
        """Delete the token with this SHA-256, if there is one.

        This is for a token whose secret could not be shown to anybody.
        """
        ...


class Store(PlantStore, TokenStore, Protocol):
    """A durable store of plants and tokens, with the operations for export, check and backup.

    Any thread may call any of these methods but `reindex`. They raise StoreUnavailableError if the
    storage cannot be read.
    """

    def scan_plants(
        self,
        listing: Listing = EVERYTHING,
        on_number: OnNumber | None = None,
        on_damaged: OnDamaged | None = None,
    ) -> Generator[list[NewPlant], None, None]:
        """Yield the plants of one snapshot in order, in at least one list of limited length.

        The limit of the listing does not matter. `on_number` is called before the first list.
        `on_damaged` may be called before each: only SQLite has checksums of its plants.

        Close the generator if you stop early: an open snapshot may take space on disk.
        """
        ...

    def has_room_for_export(self) -> bool:
        """Return whether a service may begin another export.

        It may not while open snapshots keep the store from freeing much space on disk. So
        exports that overlap cannot fill the disk.
        """
        ...

    def count_plants(self) -> int:
        """Return the number of plants, in constant time."""
        ...

    def check(self) -> CheckReport:
        """Check that everything stored is intact. This reads the whole database."""
        ...

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> CheckReport:
        """Copy a snapshot of the store into a file while it is in use; return a check of the copy.

        Args:
            path: an empty file that belongs to the caller.
            progress: is called with the amount done and the total amount.

        Raises:
            StoreUnavailableError: the store cannot be read.
            OperationError: the copy cannot be written.
            UsageError: another program makes the backups of this kind of store.

        """
        ...

    def close(self) -> None:
        """Close all files and connections. Call no method after this one."""
        ...

    def reindex(self, progress: Callable[[int, int], None]) -> str | None:
        """Make again what is derived from the plants: the index of words and their number.

        Other processes may write at the same time: it takes many small transactions. If the process
        ends before the return, what is missing is made by the next call, or when the store is
        opened again.

        On SQLite, searches, tags, and listings by name or of a tag raise StoreUnavailableError
        meanwhile.

        Call it on the thread of `apply_changes`.

        Args:
            progress: is called with the number of plants done, and the number of all plants.

        Returns:
            Which plants are damaged, in words; None if none was found. They stay as they are.

        Raises:
            StoreUnavailableError: the storage cannot be read or written.

        """
        ...
