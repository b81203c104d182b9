"""A fake store, against which the contract tests run, too; and stores that block or fail.

READ_METHODS has all methods that read a store, for tests of what holds for each read.
"""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final

import msgspec

from plantstore.change_sets import Place as SetPlace
from plantstore.change_sets import SetChange, SetPage, SetState
from plantstore.change_sets import page_of as page_of_set
from plantstore.changes import Change, Result
from plantstore.decision import decide
from plantstore.errors import FeedError, UnsupportedError
from plantstore.feed import ChangesPage, FeedState, Recorded, page_of
from plantstore.listings import (
    EVERYTHING,
    Listing,
    Page,
    Place,
    PlantsPage,
    TagListing,
    TagsPage,
    page_of_counts,
)
from plantstore.plants import ID_MAX, NewPlant
from plantstore.storage.tables import ids_exhausted, in_order, name_taken, no_such_token
from plantstore.store import TIDY_SECONDS, CheckReport, Store, TellNumber
from plantstore.tokens import TokenRecord
from plantstore.words import has_words, order_key


def read_set(store: Store, name: str) -> object:
    """Return the first change of a set, or the number of the error if there is no such set."""
    try:
        return store.read_set(name, None, 1)
    except FeedError as error:
        return error.code


# Each method that reads, with arguments that find something in a store with a plant 1.
READ_METHODS: Final[dict[str, Callable[[Store], Any]]] = {
    "find_plants": lambda store: store.find_plants([1]),
    "list_plants": lambda store: store.list_plants(EVERYTHING._replace(has_total=True)),
    "list_tags": lambda store: store.list_tags(TagListing()),
    "read_changes": lambda store: store.read_changes(None, 1),
    "read_set": lambda store: read_set(store, "a" * 16),
    "find_token": lambda store: store.find_token(b"1"),
    "list_tokens": lambda store: store.list_tokens(),
    "scan_plants": lambda store: list(store.scan_plants()),
    "count_plants": lambda store: store.count_plants(),
}
OTHER_METHODS: Final = {
    *("apply_changes", "tidy", "hand_out_ids", "keep_changes", "watch_changes", "probe"),
    "close_set",
    *("add_token", "revoke_token", "forget_token"),
    *("has_room_for_export", "check", "back_up", "reindex", "close"),
}


def read_all(store: Store) -> dict[str, Any]:
    """Return what each method returns that reads."""
    return {name: read(store) for name, read in READ_METHODS.items()}


class FakeStore:
    """Keeps plants and tokens in dictionaries. They are lost with the object."""

    def __init__(self) -> None:
        self.plants: dict[int, NewPlant] = {}
        self._tokens: dict[str, TokenRecord] = {}
        self._last_id = 0
        self._lock = threading.Lock()
        self._days = self._kept_after = self._last = 0
        self._changes: list[Recorded] = []
        self._sets: dict[str, list[SetChange]] = {}
        self._closed: set[str] = set()
        self._committed = threading.Condition()

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        outcomes, difference = decide(changes, self.plants, self._closed if self._days else ())
        with self._committed:
            for each in difference.made if self._days else []:
                self._last = max(self._last + 1, time.time_ns() // 1000)
                kind, id_, name, tag, *in_set = each
                self._changes.append(Recorded(self._last, kind, int(time.time()), id_, name, tag))
                if in_set:
                    change = SetChange(self._last, kind, id_, name, tag, *in_set[1:])
                    self._sets.setdefault(str(in_set[0]), []).append(change)
            self._committed.notify_all()
        return outcomes

    def keep_changes(self, days: int) -> None:
        if days and not self._days and (self.plants or self._last):
            self._last = self._kept_after = max(self._last + 1, time.time_ns() // 1000)
        self._days = days

    def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        with self._committed:
            kept = [each for each in self._changes if each.number > self._kept_after]
            known = {self._kept_after, *(each.number for each in kept)}
            first = kept[0].number if kept else None
            found = [each for each in kept if after is not None and each.number > after]
            state = FeedState(self._days, self._last, after in known, first, len(found))
            return page_of(state, after, found[:limit])

    def read_set(self, name: str, after: SetPlace | None, limit: int) -> SetPage:
        made = self._sets.get(name, [])
        is_complete = bool(made) and made[0].number > self._kept_after
        state = SetState(self._days, len(made) or None, is_complete)
        found = sorted(made, key=lambda each: (each.id, each.number))
        following = [each for each in found if after is None or (each.id, each.number) > after]
        return page_of_set(state, following[:limit])

    def close_set(self, name: str) -> None:
        if name in self._sets:
            self._closed.add(name)

    @contextlib.contextmanager
    def watch_changes(self) -> Iterator[Callable[[float], bool]]:
        seen = self._last

        def wait(seconds: float) -> bool:
            nonlocal seen
            with self._committed:
                is_new = self._committed.wait_for(lambda: self._last != seen, seconds)
                seen = self._last
            return is_new

        yield wait

    def tidy(self) -> float:
        return TIDY_SECONDS

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        return {id_: self.plants[id_] for id_ in ids if id_ in self.plants}

    def list_plants(self, listing: Listing) -> PlantsPage:
        plants = self._sorted(listing)
        found = [plant for plant in plants if self._follows(plant, listing)]
        total = listing.total_of(len(plants)) if listing.has_total else None
        is_last = len(found) <= listing.limit
        end = None if is_last else self._end(found[listing.limit - 1], listing)
        return Page(found[: listing.limit], end, is_last, total)

    def list_tags(self, listing: TagListing) -> TagsPage:
        return page_of_counts(listing, Counter(plant.tag for plant in self.plants.values()).items())

    def hand_out_ids(self, count: int) -> range:
        with self._lock:
            last_id = max(self._last_id, max(self.plants, default=0))
            if last_id > ID_MAX - count:
                raise ids_exhausted(count)
            self._last_id = last_id + count
            return range(last_id + 1, self._last_id + 1)

    def probe(self) -> None:
        pass

    def scan_plants(
        self,
        listing: Listing = EVERYTHING,
        tell_number: TellNumber | None = None,
    ) -> Generator[list[NewPlant], None, None]:
        if tell_number is not None:
            tell_number(self._last if self._days else None)
        # Plants are immutable, so this list is a snapshot.
        yield [plant for plant in self._sorted(listing) if self._follows(plant, listing)]

    def has_room_for_export(self) -> bool:
        return True

    def reindex(self, progress: Callable[[int, int], None]) -> None:
        """Do nothing: nothing is derived from the plants."""

    def count_plants(self) -> int:
        return len(self.plants)

    def check(self) -> CheckReport:
        return CheckReport(0, len(self.plants), len(self._tokens), [])

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> CheckReport:  # noqa: ARG002
        raise UnsupportedError("A fake store cannot be backed up")

    def close(self) -> None:
        pass

    def add_token(self, record: TokenRecord) -> None:
        with self._lock:
            if record.name in self._tokens:
                raise name_taken(record.name)
            self._tokens[record.name] = record

    def find_token(self, digest: bytes) -> TokenRecord | None:
        with self._lock:
            return next((r for r in self._tokens.values() if r.digest == digest), None)

    def list_tokens(self) -> list[TokenRecord]:
        with self._lock:
            return in_order(self._tokens.values())

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        with self._lock:
            record = self._tokens.get(name)
            if record is None:
                raise no_such_token(name)
            if record.revoked_at is None:
                record = self._tokens[name] = msgspec.structs.replace(record, revoked_at=now)
            return record

    def forget_token(self, digest: bytes) -> None:
        with self._lock:
            for name in [r.name for r in self._tokens.values() if r.digest == digest]:
                del self._tokens[name]

    def _sorted(self, listing: Listing) -> list[NewPlant]:
        found = [
            plant
            for plant in self.plants.values()
            if (listing.tag is None or plant.tag == listing.tag)
            and not (listing.is_untagged and plant.tag is not None)
            and (listing.words is None or (listing.words and has_words(plant.name, listing.words)))
        ]
        found.sort(key=lambda plant: self._end(plant, listing), reverse=listing.is_descending)
        return found

    def _follows(self, plant: NewPlant, listing: Listing) -> bool:
        if listing.place is not None:
            return Place(order_key(plant.name), plant.id) > listing.place
        after = listing.after
        return after is None or (plant.id < after if listing.is_descending else plant.id > after)

    def _end(self, plant: NewPlant, listing: Listing) -> Any:
        return plant.id if listing.place is None else Place(order_key(plant.name), plant.id)


class GatedStore(FakeStore):
    """Blocks each commit until the test releases it, and records the batches."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Change]] = []
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        self.batches.append(list(changes))
        self.entered.release()
        self.let_go.acquire()
        return super().apply_changes(changes)


class FailingStore(FakeStore):
    """Raises the given error for each batch that has the plant with the id 13."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error: Exception | None = error

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        if self.error is not None and any(change.id == 13 for change in changes):
            raise self.error
        return super().apply_changes(changes)


class Gate:
    """Lets calls wait until a test lets them go on.

    Attributes:
        asked: the arguments of the calls.
        entered: is released by each call that waits.
        let_go: is released by the test, once for each call.

    """

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def __call__(self, *arguments: Any) -> None:
        self.asked.append(arguments)
        self.entered.release()
        self.let_go.acquire()


class WatchedStore:
    """A store that counts the calls of its methods, and runs something before them.

    Attributes:
        calls: how often each method was called, by its name.
        before: what runs before a method, with its arguments, by its name. It may wait or raise.

    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.before: dict[str, Callable[..., None]] = {}

    def __getattr__(self, name: str) -> Any:
        found: Any = getattr(self._store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if name in self.before:
                self.before[name](*arguments)
            return found(*arguments, **named)

        return call

    @property
    def plants(self) -> dict[int, NewPlant]:
        return {plant.id: plant for plants in self._store.scan_plants() for plant in plants}

    def fail(self, error: BaseException, *names: str) -> None:
        """Raise an error from these methods, until `repair` is called."""

        def fail(*_: object) -> None:
            raise error

        self.before |= dict.fromkeys(names, fail)

    def repair(self) -> None:
        self.before.clear()
