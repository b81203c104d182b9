"""Which stored plants are loaded to decide a batch, and what the batch changes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    Result,
    Swap,
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
            (*change, None, None, None)
            for change in (
                *((REPLACED, 3, "new", None), (DELETED, 4, None, None), (DELETED, 5, None, None)),
                *((CREATED, 5, "again", None), (CREATED, 6, "a", None), (REPLACED, 6, "b", None)),
                *((CREATED, 8, "a", None), (DELETED, 8, None, None), (CREATED, 8, "c", None)),
            )
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


states = st.none() | st.builds(Plant, st.sampled_from("ab"), st.sampled_from([None, "", "t"]))
swaps = st.builds(Swap, st.integers(1, 3), st.just(msgspec.UNSET) | states, states)


def stored_of(id_: int, state: Plant | None) -> NewPlant | None:
    return None if state is None else NewPlant(id_, state.name, state.tag)


def all_stored(plants: dict[int, Plant | None]) -> dict[int, NewPlant]:
    return {id_: found for id_, each in plants.items() if (found := stored_of(id_, each))}


def expected_of(swap: Swap, present: Plant | None) -> tuple[Result, Plant | None]:
    """Return the result of a swap, and the plant afterwards, by the rules of `POST /changes`."""
    if present == swap.after:
        return Outcome.ALREADY_STORED, present
    if swap.before not in (msgspec.UNSET, present):
        failed = PlantOutcome(Outcome.PRECONDITION_FAILED, stored_of(swap.id, present))
        return failed, present
    if present is None:
        return Outcome.STORED, swap.after
    return (Outcome.DELETED if swap.after is None else Outcome.REPLACED), swap.after


@given(st.lists(swaps, max_size=12), st.dictionaries(st.integers(1, 3), states))
def test_a_swap_does_what_its_definition_says(
    batch: list[Swap], before: dict[int, Plant | None]
) -> None:
    after, expected, changes = dict(before), [], 0
    for swap in batch:
        result, state = expected_of(swap, after.get(swap.id))
        changes += state != after.get(swap.id)
        after[swap.id] = state
        expected.append(result)
    stored = all_stored(before)

    results, difference = decide(batch, stored)

    assert results == expected
    assert stored == all_stored(after)
    assert len(difference.made) <= changes


@pytest.mark.parametrize("before", [None, NewPlant(1, "a")])
def test_a_swap_for_a_plant_that_is_too_large_is_refused_after_its_condition(
    before: NewPlant | None,
) -> None:
    large = Plant(LARGE)
    batch = [Swap(1, msgspec.UNSET, large), Swap(1, Plant("other"), large)]

    results, difference = decide(batch, {} if before is None else {1: before})

    assert results == [Outcome.TOO_LARGE, PlantOutcome(Outcome.PRECONDITION_FAILED, before)]
    assert difference == Difference([], [], [], [])
