"""Undoes change sets in a store, and a small model of what is right."""

import contextlib
import itertools
import random
from collections.abc import Iterable
from typing import Final

from plantstore.change_sets import SetChange, UndoCounts, Walk, settle
from plantstore.changes import AllInSet, Deletion, InSet, SingleChange, Upsert
from plantstore.errors import FeedError
from plantstore.plants import NewPlant
from plantstore.store import PlantStore, Store
from support.following import Copy

_NAMES: Final = ("Rosa canina", "Abies alba", "Tilia")


def plants_of(store: Store) -> dict[int, NewPlant]:
    return {plant.id: plant for plants in store.scan_plants() for plant in plants}


def walk(store: PlantStore, name: str, limit: int = 1000) -> list[SetChange]:
    """Return all changes of a set."""
    found: list[SetChange] = []
    while changes := store.read_set(
        name, (found[-1].id, found[-1].number) if found else None, limit
    ).changes:
        found += changes
    return found


def undo(store: PlantStore, name: str, *, in_set: str | None = None, limit: int = 3) -> UndoCounts:
    """Undo a set, in small batches."""
    store.read_set(name, None, 0)
    store.close_set(name)
    counts, walked = UndoCounts(), Walk()
    while not walked.is_over:
        swaps = walked.take(store.read_set(name, walked.place, limit))
        settle(
            counts,
            swaps,
            store.apply_changes([InSet(each, in_set) if in_set else each for each in swaps]),
        )
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


class Sets:
    """A model of a store with change sets: what each change and each undo has to make of it.

    Args:
        rng: chooses what is done.
        prefix: of the names of the sets.

    """

    def __init__(self, rng: random.Random, prefix: str) -> None:
        self.rng = rng
        self._prefix = prefix
        self.plants: dict[int, NewPlant] = {}
        # By the name of the set and by id: the changes, each from what and to what.
        self.sets: dict[str, dict[int, list[tuple[NewPlant | None, NewPlant | None]]]] = {}
        self.closed: set[str] = set()

    def name(self) -> str:
        return f"{self._prefix}{len(self.sets)}".rjust(16, "_")

    def make(self, id_: int, after: NewPlant | None, name: str | None) -> bool:
        """Make a change. Return whether it changed something."""
        before = self.plants.pop(id_, None)
        if after is not None:
            self.plants[id_] = after
        if before == after:
            return False
        if name is not None:
            self.sets.setdefault(name, {}).setdefault(id_, []).append((before, after))
        return True

    def undo(self, name: str, in_set: str | None) -> UndoCounts:
        self.closed.add(name)
        counts = UndoCounts()
        for id_, changes in sorted(self.sets[name].items()):
            first, last, present = changes[0][0], changes[-1][1], self.plants.get(id_)
            links = itertools.pairwise(changes)
            is_intact = all(this[1] == following[0] for this, following in links)
            if present != first and not (is_intact and present == last):
                counts.kept += 1
                counts.kept_ids.append(id_)
                continue
            self.make(id_, first, in_set)
            if first is None:
                counts.deleted += 1
            elif is_intact and last is None:
                counts.recreated += 1
            else:
                counts.restored += 1
        return counts


def play(store: Store, model: Sets, steps: int) -> None:
    """Take random steps in a store and in the model, and compare the two after each."""
    rng = model.rng
    store.apply_changes([Deletion(id_) for id_ in plants_of(store)])
    for _ in range(steps):
        open_sets = [*(model.sets.keys() - model.closed), model.name()]
        if model.sets and rng.random() < 0.25:
            name = rng.choice([*model.sets])
            in_set = rng.choice([None, *sorted({*open_sets} - {name})])
            expected = model.undo(name, in_set)
            found = undo(store, name, in_set=in_set, limit=rng.choice([1, 2, 5, 50]))
            assert found == expected
        else:
            batch: list[tuple[SingleChange, str | None]] = []
            in_sets = [None, *sorted(open_sets)]
            if rng.random() < 0.3:
                in_sets = [rng.choice(in_sets)]
            is_new = rng.random() < 0.5  # plants that only are created
            for id_ in rng.sample(range(8), rng.randrange(1, 5)):
                name_ = rng.choice(in_sets)
                plant = NewPlant(id_, rng.choice(_NAMES), rng.choice([None, "t"]))
                after = None if not is_new and rng.random() < 0.4 else plant
                if is_new and id_ in model.plants:
                    continue
                model.make(id_, after, name_)
                change: SingleChange = Deletion(id_) if after is None else Upsert(plant)
                if is_new:
                    change = plant
                batch.append((change, name_))
            if batch and len(in_sets) == 1 and in_sets[0]:
                store.apply_changes(AllInSet([change for change, _ in batch], in_sets[0]))
            elif batch:
                store.apply_changes([InSet(one, name) if name else one for one, name in batch])
        assert store.find_plants([*range(8)]) == model.plants
        assert store.count_plants() == len(model.plants)
