"""Random changes to a store in a file, and the contents that the store may have afterwards.

When every change was acknowledged, only one content is possible. While a change is in
progress, or after it has failed, the content without it and the content with it are both
possible. Batches are atomic and sequential, so the store always has one of the possible
contents.
"""

import bisect
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from plantstore.changes import (
    ANY,
    AllInSet,
    Change,
    Conditional,
    Deletion,
    Patch,
    Precondition,
    Replacement,
    Result,
    SingleChange,
    UnconditionalChange,
    Upsert,
)
from plantstore.decision import decide
from plantstore.errors import FeedError, StoreUnavailableError
from plantstore.listings import Listing, Place, TagListing, scan
from plantstore.plants import NewPlant, Plant, PlantPatch
from plantstore.storage.sqlite.file import PAGE_BYTES
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.tokens import SCOPES, TokenRecord, digest
from plantstore.words import order_key
from support.change_sets import problems_of_sets
from support.crash_states import Step, Written
from support.disk import Disk, Fault
from support.following import Copy

# The size limit of the log: room for a few batches.

# Most changes have no condition.
CONDITIONS = [*[None] * 8, Precondition(if_match=ANY), Precondition(if_none_match=ANY)]

# The names of sets. Most changes are in none.
SETS = ("one", "another")

Act: TypeAlias = Sequence[Change] | TokenRecord


class Content(NamedTuple):
    """The plants and tokens in a store."""

    plants: dict[int, NewPlant]
    tokens: dict[str, TokenRecord]


NOTHING = Content({}, {})


class Ledger:
    """The possible contents of a store after each step of a disk's history.

    `acknowledged` counts the acknowledged changes. `problems` has the problems found by `read`.
    """

    def __init__(self, disk: Disk, possible: Sequence[Content] = (NOTHING,)) -> None:
        self.possible = list(possible)
        self.acknowledged = 0
        self.problems: list[str] = []
        self._disk = disk
        self._failed: list[Act] = []
        self._marks = [(0, self.possible)]

    def at(self, cut: int) -> list[Content]:
        """Return the possible contents if the power fails after `cut` steps."""
        after = bisect.bisect_right(self._marks, cut, key=lambda mark: mark[0])
        return self._marks[after - 1][1]

    def do(self, store: SQLiteStore, act: Act) -> bool:
        """Make a change; return whether it was acknowledged."""
        results = [_after(content, act) for content in self.possible]
        begun = len(self._disk.steps)
        self._may_be([*self.possible, *(content for content, _ in results)])
        told: list[Result] = []
        try:
            if isinstance(act, TokenRecord):
                store.add_token(act)
            else:
                told = store.apply_changes(act)
        except StoreUnavailableError:
            self._failed.append(act)
            return False
        if any(_is_in_log(step) for step in self._disk.steps[begun:]):
            self._failed.clear()  # the failed changes are overwritten in the log
        self._may_be([content for content, expected in results if expected == told])
        assert self.possible, f"no possible content explains {told}"
        self.acknowledged += 1
        return True

    def read(self, store: SQLiteStore) -> list[str]:
        """Read the whole store, which must keep this content; return the problems found."""
        plants = {
            plant.id: plant
            for page in scan(store.list_plants, Listing(limit=1000))
            for plant in page
        }
        content = Content(plants, {record.name: record for record in store.list_tokens()})
        problems = [] if content in self.possible else [_differences(content, self.possible)]
        if store.find_plants(list(plants)) != plants:
            problems.append("find_plants does not return the plants that are listed")
        by_name = [*itertools.chain(*scan(store.list_plants, Listing(limit=1000, place=Place())))]
        if by_name != sorted(plants.values(), key=lambda each: (order_key(each.name), each.id)):
            problems.append("the plants in order by name are others")
        tags = {each.tag: each.plants for each in store.list_tags(TagListing(1000)).tags}
        if tags != Counter(each.tag for each in plants.values() if each.tag is not None):
            problems.append("the tags are others")
        with contextlib.suppress(FeedError):  # the feed may be off
            if Copy().follow(store).plants != plants:
                problems.append("the feed has other changes than those that are stored")
            problems += problems_of_sets(store, SETS)
        # A failed change may still become visible until another change is written.
        self._may_be([content, *(_after(content, act)[0] for act in self._failed)])
        self.problems += problems
        return problems

    def _may_be(self, contents: Iterable[Content]) -> None:
        self.possible = []
        for content in contents:
            if content not in self.possible:
                self.possible.append(content)
        self._marks.append((len(self._disk.steps), self.possible))


def _is_in_log(step: Step) -> bool:
    """Return whether a step writes to the log. A failed checkpoint only tries to sync it."""
    return isinstance(step, Written) and step.file == "-wal"


def _after(content: Content, act: Act) -> tuple[Content, list[Result]]:
    """Return the content after an act, and its outcomes."""
    if isinstance(act, TokenRecord):
        return content._replace(tokens=content.tokens | {act.name: act}), []
    plants = dict(content.plants)
    outcomes, _ = decide(act, plants)
    return content._replace(plants=plants), outcomes


def _differences(content: Content, possible: list[Content]) -> str:
    """Describe how a content differs from each possible content."""
    found = _records(content)
    said = [
        f"missing {sorted(_records(other) - found)}, not expected {sorted(found - _records(other))}"
        for other in possible
    ]
    return " or ".join(said)


def _records(content: Content) -> set[str]:
    """Return a short description of each plant and token."""
    plants = {f"{id_} {plant.name:.20} {hash(plant)}" for id_, plant in content.plants.items()}
    return plants | {f"token {record}" for record in content.tokens.values()}


def acts(chance: random.Random, count: int) -> Iterator[Act]:
    """Yield random acts: batches of changes to a few plants, and sometimes a new token."""
    for number in range(count):
        if chance.random() < 0.05:
            name = f"{chance.getrandbits(64)}"
            yield TokenRecord(name, digest(name), frozenset(SCOPES), number)
        else:
            in_set = chance.choice([None, None, None, *SETS])
            changes = [_change(chance) for _ in range(chance.randrange(1, 9))]
            yield changes if in_set is None else AllInSet(changes, in_set)


def _change(chance: random.Random) -> SingleChange:
    id_ = chance.randrange(60)
    patch = PlantPatch(tag=chance.choice(["a", "b", None]))
    size = chance.randrange(2_000, 20_000) if chance.random() < 0.08 else chance.randrange(40)
    plant = Plant(f"Rosa × {chance.getrandbits(32)}{'x' * size}", chance.choice(["a", "b", None]))
    new = NewPlant(id_, plant.name, plant.tag)
    kinds: list[NewPlant | UnconditionalChange] = [
        new,
        Upsert(new),
        Replacement(id_, plant),
        Deletion(id_),
        Patch(id_, patch),
    ]
    [change] = chance.choices(kinds, [4, 2, 2, 2, 1])
    condition = chance.choice(CONDITIONS)
    if condition is None:
        return change
    return Conditional(Upsert(new) if isinstance(change, NewPlant) else change, condition)


def open_with_short_log(path: Path, chance: random.Random) -> SQLiteStore:
    """Open a store whose log is often checkpointed, restarted and truncated."""
    # This clock advances by a second with each reading, so that no code waits.
    seconds = itertools.count()
    return SQLiteStore(
        str(path),
        monotonic=lambda: next(seconds),
        log_bytes_max=chance.choice([2, 8, 60]) * PAGE_BYTES,
    )


def live(
    ledger: Ledger,
    disk: Disk,
    chance: random.Random,
    count: int,
    prepare: Callable[[SQLiteStore], object] = lambda _: None,
) -> None:
    """Open a store, make `count` changes, sometimes with a long read, and close it."""
    with (
        contextlib.closing(open_with_short_log(disk.path, chance)) as store,
        contextlib.ExitStack() as reads,
    ):
        prepare(store)
        for act in acts(chance, count):
            ledger.do(store, act)
            if chance.random() < 0.05:
                reads.close()
                while store.tidy() == 0:  # as an idle service does
                    pass
            elif chance.random() < 0.05:
                # During this read the log cannot be reset or checkpointed past the read.
                next(reads.enter_context(contextlib.closing(store.scan_plants())))


def live_with_a_fault(ledger: Ledger, disk: Disk, chance: random.Random, fault: Fault) -> int:
    """Change and read a store before, during and after a fault; return the step it began at.

    The ledger records the problems found.
    """
    with disk, contextlib.closing(open_with_short_log(disk.path, chance)) as store:
        for act in acts(chance, 3):
            assert ledger.do(store, act)
        before = len(disk.steps)
        disk.break_down(fault)
        for act in acts(chance, 12):
            ledger.do(store, act)
            ledger.read(store)
            store.tidy()
        disk.heal()
        for act in acts(chance, 3):
            assert ledger.do(store, act), "the store does not recover after the fault"
        ledger.read(store)
        ledger.problems += store.check().problems
    return before
