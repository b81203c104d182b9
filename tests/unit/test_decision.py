"""Which stored plants are loaded to decide a batch, and what the batch changes."""

import pytest

from plantstore.changes import (
    ANY,
    Change,
    Conditional,
    Deletion,
    Outcome,
    Patch,
    PlantOutcome,
    Precondition,
    Replacement,
    UnconditionalChange,
    Upsert,
)
from plantstore.decision import Difference, decide
from plantstore.feed import Kind
from plantstore.plants import PLANT_BYTES_MAX, NewPlant, Plant, PlantPatch

CREATED, REPLACED, DELETED = Kind


def test_the_difference_lists_new_changed_and_deleted_plants() -> None:
    stored = {id_: NewPlant(id_, "old") for id_ in range(1, 6)}
    changes: list[Change] = [
        *(NewPlant(1, "old"), NewPlant(2, "other"), Replacement(3, Plant("new")), Deletion(4)),
        *(Deletion(5), NewPlant(5, "again"), NewPlant(6, "a"), Replacement(6, Plant("b"))),
        *(NewPlant(7, "a"), Deletion(7), NewPlant(8, "a"), Deletion(8), NewPlant(8, "c")),
        *(Replacement(9, Plant("a")), Deletion(9)),
    ]

    _, difference = decide(changes, stored)

    assert difference == Difference(
        new=[NewPlant(6, "b"), NewPlant(8, "c")],
        changed=[NewPlant(3, "new"), NewPlant(5, "again")],
        gone=[4],
        made=[
            *((REPLACED, 3, "new", None), (DELETED, 4, None, None), (DELETED, 5, None, None)),
            *((CREATED, 5, "again", None), (CREATED, 6, "a", None), (REPLACED, 6, "b", None)),
            *((CREATED, 8, "a", None), (DELETED, 8, None, None), (CREATED, 8, "c", None)),
        ],
    )


LARGE = "x" * PLANT_BYTES_MAX


@pytest.mark.parametrize(
    "change",
    [
        Patch(1, PlantPatch(tag=LARGE)),
        Replacement(1, Plant(LARGE)),
        Upsert(NewPlant(1, LARGE)),
        Upsert(NewPlant(1, LARGE), keeps_tag=True),
    ],
)
@pytest.mark.parametrize(
    ("condition", "is_true"),
    [
        (Precondition(if_match=ANY), True),
        (Precondition(if_match=frozenset({'"other"'})), False),
        (Precondition(if_none_match=ANY), False),
    ],
)
def test_a_plant_that_would_be_too_large_is_refused_after_its_condition_is_evaluated(
    change: UnconditionalChange,
    condition: Precondition,
    is_true: bool,  # noqa: FBT001
) -> None:
    before = NewPlant(1, "a")

    results, difference = decide([change, Conditional(change, condition)], {1: before})

    failed = PlantOutcome(Outcome.PRECONDITION_FAILED, before)
    assert results == [Outcome.TOO_LARGE, Outcome.TOO_LARGE if is_true else failed]
    assert difference == Difference([], [], [], [])
