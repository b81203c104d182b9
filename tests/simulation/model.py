"""What the store may have, by what clients have sent and were told; and checks of what it has."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from plantstore.feed import Kind, Recorded
from plantstore.listings import Listing, Place, TagListing
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.words import order_key
from support.following import Copy, problems_of_sets
from support.histories import Operation, is_explained

# The name and the tag of a plant; None if no plant is stored.
Value: TypeAlias = tuple[str, str | None] | None

# The ids of plants that all clients change.
BRIEF = range(2, 5)

# What a change makes of a plant.
Effect: TypeAlias = Callable[[Value], Value]


class Export(NamedTuple):
    """An export: the number of the last change before it, and its plants."""

    who: str
    number: int
    plants: dict[int, Value]


class Model:
    """What the clients know of the store.

    Each plant belongs to one client, which changes it in one request at a time. If the result of a
    request is unknown, several values are possible until the service ends.

    Args:
        now: returns the time.

    Attributes:
        possible: the values that each plant may have now.
        violations: what was not as promised.
        handed_out: the ids that were handed out.
        exports: those that were complete.
        followed: what each follower got: the number after which it began, and the changes.
        revoked_at: the time at which the token of the guest was revoked.
        prefixes: rows of imports of which a prefix is stored, in order.
        sets: the names of all change sets.
        feed_was_off: whether the feed lacks changes, since it was off.
        brief: the requests for plants that all clients change, by id.

    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.possible: dict[int, set[Value]] = {}
        self.violations: list[str] = []
        self.handed_out: list[range] = []
        self.revoked_at = math.inf
        self.exports: list[Export] = []
        self.followed: list[tuple[str, int, list[Recorded]]] = []
        self.prefixes: list[tuple[str, list[tuple[int, Value]]]] = []
        self.sets: list[str] = []
        self.feed_was_off = False
        self.brief: dict[int, list[Operation]] = {id_: [] for id_ in BRIEF}

    def fail(self, what: str) -> None:
        self.violations.append(what)

    def of(self, id_: int) -> set[Value]:
        return self.possible.get(id_, {None})

    def is_known(self, id_: int) -> bool:
        return len(self.of(id_)) == 1

    def doubt(self, id_: int, effect: Effect) -> None:
        """Note that a change may or may not be made."""
        self.possible[id_] = self.of(id_) | {effect(value) for value in self.of(id_)}
        # It may store the same as a row of an import whose result is not known.
        for _, rows in self.prefixes:
            rows[:] = [row for row in rows if row[0] != id_]

    def settle(self, who: str, id_: int, fits: Callable[[Value], bool], effect: Effect) -> None:
        """Note that a change was made, or refused, as only a plant that fits explains."""
        before = {value for value in self.of(id_) if fits(value)}
        if not before:
            self.fail(f"{who}: the plant {id_} was one of {self.of(id_)}")
            before = self.of(id_)
        self.possible[id_] = {effect(value) for value in before}

    def see(self, who: str, id_: int, value: Value) -> None:
        """Note that a client has read a plant."""
        if value not in self.of(id_):
            self.fail(f"{who}: the plant {id_} is {value}, may be {self.of(id_)}")

    def hand_out(self, who: str, ids: range) -> None:
        if any(ids[0] <= other[-1] and other[0] <= ids[-1] for other in self.handed_out):
            self.fail(f"{who}: ids of {ids} were handed out before")
        self.handed_out.append(ids)

    def compare(self, store: SQLiteStore) -> None:
        """Compare a store, which no client changes any more, with what it may have."""
        stored: dict[int, Value] = {
            plant.id: (plant.name, plant.tag) for page in store.scan_plants() for plant in page
        }
        by_name = [plant for page in store.scan_plants(Listing(place=Place())) for plant in page]
        expected = sorted((order_key(each[0]), id_) for id_, each in stored.items() if each)
        if [plant.id for plant in by_name] != [id_ for _, id_ in expected]:
            self.fail("the plants in order by name are not those that are stored")
        for id_ in sorted((stored.keys() | self.possible) - {*BRIEF}):
            if stored.get(id_) not in self.of(id_):
                self.fail(f"the plant {id_} is {stored.get(id_)}, may be {self.of(id_)}")
        for id_, operations in self.brief.items():
            found = stored.get(id_)
            status = 404 if found is None else 200
            operations.append(Operation(self.now(), math.inf, id_, "GET", status, saw=found))
            if not is_explained(operations):
                self.fail(f"no order explains {operations}")
        for who, rows in self.prefixes:
            are_stored = [stored.get(id_) == value for id_, value in rows]
            if are_stored != sorted(are_stored, reverse=True):
                self.fail(f"{who}: the stored rows of its import are no prefix")
        self.prefixes.clear()
        counts = Counter(each[1] for each in stored.values() if each)
        if {each.tag: each.plants for each in store.list_tags(TagListing()).tags} != {
            tag: count for tag, count in counts.items() if tag
        }:
            self.fail("the tags are not those of the plants that are stored")
        if not self.feed_was_off:
            self._compare_feed(Copy().follow(store, 1000).changes, stored)
            self.violations += problems_of_sets(store, self.sets)
        self.possible = {id_: {stored.get(id_)} for id_ in self.possible}

    def _compare_feed(self, changes: Sequence[Recorded], stored: dict[int, Value]) -> None:
        if replayed(changes) != stored:
            self.fail("the replay of the feed is not what is stored")
        for who, number, plants in self.exports:
            if replayed(each for each in changes if each.number <= number) != plants:
                self.fail(f"{who}: the export is not the state after {number}")
        self.exports.clear()
        for who, after, got in self.followed:
            expected = [each for each in changes if each.number > after][: len(got)]
            if [each.number for each in got] != [each.number for each in expected]:
                self.fail(f"{who}: followed {got} after {after}, the feed has {expected}")


def replayed(changes: Iterable[Recorded]) -> dict[int, Value]:
    """Return the plants after changes."""
    plants: dict[int, Value] = {}
    for each in changes:
        if each.kind == Kind.DELETED:
            plants.pop(each.id, None)
        else:
            assert each.name is not None
            plants[each.id] = (each.name, each.tag)
    return plants
