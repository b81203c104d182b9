"""Change sets: the changes of several requests under one name, so that they can be undone together.

Theory of operation
-------------------
A client chooses the name of a set, and sends it with each of its changes. The change is recorded in
the feed with its set, and with what the plant was before. Nothing of a set is recorded while the
feed is off, and it is trimmed with the feed.

An undo closes the set, so that it gets no more changes, and walks it by the ids of its plants. It
gives each plant back what it was before the set's first change of it, as a `Swap`: if the plant
still is what the last change of the set made it. The swap is decided in its own transaction, so an
undo can stop anywhere, run again, and run beside other changes.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import msgspec

from plantstore.changes import Outcome, PlantOutcome, Result, Swap, error_of
from plantstore.errors import BatchRefusedError, RequestError
from plantstore.plants import Plant

# Ids of plants that the response to an undo lists. All of them are counted.
KEPT_IDS_MAX: Final = 1_000

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{16,64}")

# The id and the number of a change: its place in a walk.
SetPosition: TypeAlias = tuple[int, int]


def is_name(text: str) -> bool:
    """Return whether a text may be the name of a set."""
    return _NAME.fullmatch(text) is not None


class SetChange(NamedTuple):
    """A change of a set, as the feed has it, and what the plant was before."""

    number: int
    kind: int
    id: int
    name: str | None
    tag: str | None
    name_before: str | None
    tag_before: str | None


class SetPage(NamedTuple):
    """Changes of a set in order of id, and then of number, and the number of all of them."""

    changes: list[SetChange]
    total: int


class UndoCounts(msgspec.Struct):
    """What became of the plants of a set.

    Attributes:
        restored: number of plants that are again what they were.
        deleted: number of plants that the set created, and that are deleted.
        recreated: number of plants that the set deleted, and that are stored again.
        kept: number of plants that stay, because others have changed them.
        kept_ids: the ids of the first KEPT_IDS_MAX of these.

    """

    restored: int = 0
    deleted: int = 0
    recreated: int = 0
    kept: int = 0
    kept_ids: list[int] = msgspec.field(default_factory=list)


class Walk:
    """Makes one `Swap` for each plant from the changes of a set.

    Attributes:
        place: of the last change that it was given; None before the first one.
        is_over: whether no changes follow.

    """

    def __init__(self) -> None:
        self.place: SetPosition | None = None
        self.is_over = False
        self._taken = 0
        # Of the last plant: what it was before the set, what the set made of it, and whether no
        # other change came between.
        self._before: Plant | None
        self._after: Plant | None
        self._is_intact: bool

    def take(self, page: SetPage) -> list[Swap]:
        """Take the next page of the set; return the swaps of the plants that are complete."""
        swaps = []
        for number, _kind, id_, name, tag, name_before, tag_before in page.changes:
            before = None if name_before is None else Plant(name_before, tag_before)
            after = None if name is None else Plant(name, tag)
            if self.place is not None and self.place[0] == id_:
                self._is_intact = self._is_intact and before == self._after
            else:
                if self.place is not None:
                    swaps.append(self._swap(self.place[0]))
                self._before, self._is_intact = before, True
            self._after = after
            self.place = id_, number
        self._taken += len(page.changes)
        self.is_over = self._taken >= page.total or not page.changes
        if self.is_over and self.place is not None:
            swaps.append(self._swap(self.place[0]))
        return swaps

    def _swap(self, id_: int) -> Swap:
        # If others changed the plant in between, only one with its old value counts as restored.
        return Swap(id_, self._after if self._is_intact else self._before, self._before)


def settle(
    counts: UndoCounts, swaps: Sequence[Swap], outcomes: Sequence[Result | RequestError]
) -> None:
    """Count the plants of a batch, once its changes are on disk.

    Raises:
        RequestError: a plant is not what the undo makes of it, for a reason that does not lie in
            the plant.

    """
    for swap, outcome in zip(swaps, outcomes, strict=True):
        match outcome:
            case PlantOutcome() | Outcome.TOO_LARGE | BatchRefusedError():
                counts.kept += 1
                if len(counts.kept_ids) < KEPT_IDS_MAX:
                    counts.kept_ids.append(swap.id)
            case RequestError():
                raise outcome.again()
            case _ if error := error_of(outcome, swap.id):
                raise error
            case _ if swap.after is None:
                counts.deleted += 1
            case _ if swap.before is None:
                counts.recreated += 1
            case _:
                counts.restored += 1
