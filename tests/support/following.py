"""A copy of the plants that follows the feed of a store, and change sets as the store has them."""

import contextlib
from collections.abc import Iterable

from plantstore.change_sets import SetChange, UndoCounts, Walk, settle
from plantstore.errors import FeedError
from plantstore.feed import Kind, Recorded
from plantstore.plants import NewPlant
from plantstore.store import PlantStore, Store


class Copy:
    """Plants that are kept by reading the feed. `number` is that of the last change read."""

    def __init__(self, plants: dict[int, NewPlant] | None = None, number: int = 0) -> None:
        self.plants = dict(plants or {})
        self.number = number
        self.changes: list[Recorded] = []

    def follow(self, store: PlantStore, limit: int = 100) -> "Copy":
        """Read all changes that are there."""
        is_last = False
        while not is_last:
            page = store.read_changes(self.number, limit)
            for change in page.items:
                self.apply(change)
            assert page.end == self.number
            is_last = page.is_last
        return self

    def apply(self, change: Recorded) -> None:
        assert change.number > self.number
        assert (change.id in self.plants) is (change.kind != Kind.CREATED)
        if change.kind == Kind.DELETED:
            del self.plants[change.id]
        else:
            assert change.name is not None
            self.plants[change.id] = NewPlant(change.id, change.name, change.tag)
        self.number = change.number
        self.changes.append(change)


def everything(store: Store) -> list[NewPlant]:
    """Return all plants as a scan yields them."""
    return [plant for plants in store.scan_plants() for plant in plants]


def plants_of(store: Store) -> dict[int, NewPlant]:
    return {plant.id: plant for plant in everything(store)}


def walk(store: PlantStore, name: str, limit: int = 1000) -> list[SetChange]:
    """Return all changes of a set."""
    found: list[SetChange] = []
    while changes := store.read_set(
        name, (found[-1].id, found[-1].number) if found else None, limit
    ).changes:
        found += changes
    return found


def undo(store: PlantStore, name: str) -> UndoCounts:
    """Undo a set, in small batches."""
    store.close_set(name)
    counts, walked = UndoCounts(), Walk()
    while not walked.is_over:
        swaps = walked.take(store.read_set(name, walked.place, 3))
        settle(counts, swaps, store.apply_changes(swaps))
    return counts


def problems_of_sets(store: PlantStore, names: Iterable[str]) -> list[str]:
    """Compare sets with the whole feed: their changes, and what the plants were before these."""
    expected: dict[int, SetChange] = {}
    plants: dict[int, tuple[str | None, str | None]] = {}
    for number, kind, _, id_, name, tag in Copy().follow(store).changes:
        old = plants.pop(id_, (None, None))
        expected[number] = SetChange(number, kind, id_, name, tag, *old)
        if name is not None:
            plants[id_] = name, tag
    problems, seen = [], set[int]()
    for set_name in names:
        with contextlib.suppress(FeedError):
            changes = walk(store, set_name)
            numbers = {each.number for each in changes}
            if any(each != expected.get(each.number) for each in changes) or seen & numbers:
                problems.append(f"the set {set_name} has other changes than the feed")
            if store.read_set(set_name, None, 0).total != len(numbers):
                problems.append(f"the set {set_name} has another number of changes")
            seen |= numbers
    return problems
