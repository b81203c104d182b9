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
from plantstore.decision import DIFFERENT, Difference, decide, load_stored
from plantstore.feed import Kind
from plantstore.plants import PLANT_BYTES_MAX, NewPlant, Plant, PlantPatch

CREATED, REPLACED, DELETED = Kind


def test_only_stored_plants_of_the_same_size_as_the_new_plant_are_loaded() -> None:
    stored = {
        plant.id: plant
        for plant in [
            NewPlant(1, "equal", "tag"),
            NewPlant(2, "other", "tag"),
            NewPlant(3, "longer"),
            NewPlant(4, "a"),
            NewPlant(5, "×"),
            NewPlant(6, "gone"),
            NewPlant(7, "replaced"),
            NewPlant(9, "equal"),
            NewPlant(10, "long"),
            NewPlant(11, "another", "kept"),
        ]
    }
    changes: list[Change] = [
        *(NewPlant(1, "equal", "tag"), NewPlant(2, "OTHER", "tag"), NewPlant(3, "long")),
        *(NewPlant(4, "a", ""), NewPlant(5, "ab"), Deletion(6), NewPlant(6, "new")),
        *(Replacement(7, Plant("b")), NewPlant(7, "b"), NewPlant(8, "new")),
        *(Upsert(NewPlant(9, "equal")), Upsert(NewPlant(10, "longer"))),
        *(Upsert(NewPlant(11, "a"), keeps_tag=True), Upsert(NewPlant(12, "a"), keeps_tag=True)),
    ]
    loaded: list[int] = []

    def load(ids: list[int]) -> dict[int, NewPlant]:
        loaded.extend(ids)
        return {id_: stored[id_] for id_ in ids}

    sizes = {
        plant.id: (len(plant.name.encode()), None if plant.tag is None else len(plant.tag))
        for plant in stored.values()
    }
    known = load_stored(changes, sizes, load)

    assert loaded == [1, 2, 5, 9, 11]
    assert known == dict.fromkeys(stored, DIFFERENT) | {id_: stored[id_] for id_ in loaded}
    assert decide(changes, known) == decide(changes, stored)


def test_a_batch_of_new_plants_loads_no_stored_plants() -> None:
    def load(ids: list[int]) -> dict[int, NewPlant]:
        raise AssertionError(ids)

    known = load_stored([NewPlant(1, "a")], {}, load)

    assert decide([NewPlant(1, "a")], known)[0] == [Outcome.STORED]


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


def test_patches_and_conditions_load_their_plants_once_whatever_the_size() -> None:
    loaded: list[int] = []

    def load(ids: list[int]) -> dict[int, NewPlant]:
        loaded.extend(ids)
        return {id_: NewPlant(id_, "stored") for id_ in ids}

    if_any = Precondition(if_match=ANY)
    changes: list[Change] = [
        *(Patch(1, PlantPatch("a")), Conditional(Deletion(2), if_any), Patch(2, PlantPatch("b"))),
        *(Deletion(3), Conditional(Deletion(4), if_any)),
    ]

    known = load_stored(changes, {1: (6, None), 2: (6, None), 3: (6, None)}, load)

    assert loaded == [1, 2]
    assert known == {1: NewPlant(1, "stored"), 2: NewPlant(2, "stored"), 3: DIFFERENT}


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
