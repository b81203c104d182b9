"""The promises of every store, from the docstrings of plantstore.store: one suite for all."""

from collections.abc import Callable, Iterator
from typing import Any

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
    Upsert,
    entity_tag,
)
from plantstore.errors import OperationError
from plantstore.listings import Listing
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant, PlantPatch
from plantstore.store import Store
from plantstore.tokens import TokenRecord


@pytest.fixture
def store(open_another: Callable[[], Store]) -> Iterator[Store]:
    opened = open_another()
    yield opened
    opened.close()


def record(name: str, **changes: Any) -> TokenRecord:
    values: dict[str, Any] = {
        "digest": name.encode().ljust(32),
        "scopes": frozenset({"plants:create"}),
        "created_at": 1,
    }
    return TokenRecord(name, **(values | changes))


def test_a_new_plant_is_stored_once_and_the_same_again_changes_nothing(store: Store) -> None:
    plant = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")

    assert store.apply_changes([plant]) == [Outcome.STORED]
    assert store.apply_changes([plant]) == [Outcome.ALREADY_STORED]


@pytest.mark.parametrize(
    "other", [NewPlant(1, "b", "t"), NewPlant(1, "a"), NewPlant(1, "a", ""), NewPlant(1, "A", "t")]
)
def test_another_record_under_a_stored_id_is_refused(store: Store, other: NewPlant) -> None:
    plant = NewPlant(1, "a", "t")
    store.apply_changes([plant])

    assert store.apply_changes([other, NewPlant(2, "b")]) == [Outcome.ID_TAKEN, Outcome.STORED]
    assert store.apply_changes([plant]) == [Outcome.ALREADY_STORED]


def test_a_plant_is_compared_with_earlier_plants_of_its_own_batch(store: Store) -> None:
    batch = [NewPlant(1, "a"), NewPlant(1, "b"), NewPlant(1, "a"), NewPlant(0, "b")]

    assert store.apply_changes(batch) == [
        Outcome.STORED,
        Outcome.ID_TAKEN,
        Outcome.ALREADY_STORED,
        Outcome.STORED,
    ]


def test_an_empty_batch_has_no_outcomes(store: Store) -> None:
    assert store.apply_changes([]) == []


def test_a_replacement_replaces_the_whole_plant_and_creates_nothing(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a", "t")])

    assert store.apply_changes(
        [Replacement(1, Plant("b")), Replacement(2, Plant("c")), Replacement(1, Plant("b"))]
    ) == [Outcome.REPLACED, Outcome.NO_SUCH_PLANT, Outcome.REPLACED]

    assert store.find_plants([1, 2]) == {1: NewPlant(1, "b")}


def test_a_deleted_plant_is_gone_and_its_id_is_free(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a"), NewPlant(2, "b")])

    assert store.apply_changes([Deletion(1), Deletion(1)]) == [
        Outcome.DELETED,
        Outcome.NO_SUCH_PLANT,
    ]

    assert store.find_plants([1, 2]) == {2: NewPlant(2, "b")}
    assert store.apply_changes([NewPlant(1, "c")]) == [Outcome.STORED]


def test_changes_of_one_batch_take_effect_in_their_order(store: Store) -> None:
    batch: list[Change] = [
        NewPlant(1, "a"),
        Replacement(1, Plant("b", "t")),
        NewPlant(1, "a"),
        Deletion(1),
        NewPlant(1, "c"),
        NewPlant(2, "d"),
        Deletion(2),
    ]

    assert store.apply_changes(batch) == [
        Outcome.STORED,
        Outcome.REPLACED,
        Outcome.ID_TAKEN,
        Outcome.DELETED,
        Outcome.STORED,
        Outcome.STORED,
        Outcome.DELETED,
    ]
    assert store.find_plants([1, 2]) == {1: NewPlant(1, "c")}


def test_a_condition_sees_the_earlier_changes_of_its_batch(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a")])
    if_a = Precondition(if_match=frozenset({entity_tag("a", None)}))
    if_none = Precondition(if_none_match=ANY)
    batch: list[Change] = [
        Conditional(Replacement(1, Plant("b")), if_a),
        Conditional(Replacement(1, Plant("c")), if_a),
        Conditional(Deletion(2), if_a),
        Conditional(Upsert(NewPlant(2, "a")), if_none),
        Conditional(Upsert(NewPlant(2, "a")), if_none),
        Conditional(Deletion(2), if_a),
    ]

    assert store.apply_changes(batch) == [
        Outcome.REPLACED,
        PlantOutcome(Outcome.PRECONDITION_FAILED, NewPlant(1, "b")),
        PlantOutcome(Outcome.PRECONDITION_FAILED, None),
        Outcome.STORED,
        PlantOutcome(Outcome.PRECONDITION_FAILED, NewPlant(2, "a")),
        Outcome.DELETED,
    ]
    assert store.find_plants([1, 2]) == {1: NewPlant(1, "b")}


def test_a_repeated_change_with_if_match_counts_as_made(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a")])
    if_a = Precondition(if_match=frozenset({entity_tag("a", None)}))
    changes: list[Change] = [
        Conditional(Replacement(1, Plant("b", "t")), if_a),
        Conditional(Patch(1, PlantPatch("b", "t")), if_a),
    ]

    assert store.apply_changes([changes[0]]) == [Outcome.REPLACED]
    assert store.apply_changes([changes[0]]) == [Outcome.REPLACED]
    assert store.apply_changes([changes[1]]) == [
        PlantOutcome(Outcome.ALREADY_STORED, NewPlant(1, "b", "t"))
    ]


def test_patches_of_different_members_both_hold(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a", "s")])
    batch: list[Change] = [
        *(Patch(1, PlantPatch(name="b")), Patch(1, PlantPatch(tag="t"))),
        *(Patch(1, PlantPatch(tag=None)), Patch(1, PlantPatch()), Patch(2, PlantPatch("x"))),
    ]

    assert store.apply_changes(batch) == [
        PlantOutcome(Outcome.REPLACED, NewPlant(1, "b", "s")),
        PlantOutcome(Outcome.REPLACED, NewPlant(1, "b", "t")),
        PlantOutcome(Outcome.REPLACED, NewPlant(1, "b")),
        PlantOutcome(Outcome.ALREADY_STORED, NewPlant(1, "b")),
        Outcome.NO_SUCH_PLANT,
    ]
    assert store.find_plants([1, 2]) == {1: NewPlant(1, "b")}


def test_a_look_up_returns_only_stored_plants(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a"), NewPlant(2, "b", "t")])

    assert store.find_plants([2, 3, 2]) == {2: NewPlant(2, "b", "t")}
    assert store.find_plants([]) == {}


def test_a_listing_continues_after_an_id_and_marks_the_last_page(store: Store) -> None:
    all_ = [NewPlant(id_, "a", "even" if id_ % 2 == 0 else None) for id_ in range(10)]
    store.apply_changes(all_)

    def page(after: int | None, limit: int, tag: str | None = None) -> tuple[list[int], bool]:
        page = store.list_plants(Listing(after=after, limit=limit, tag=tag))
        return [plant.id for plant in page.plants], page.is_last

    assert page(None, 3) == ([0, 1, 2], False)
    assert page(2, 3) == ([3, 4, 5], False)
    assert page(6, 3) == ([7, 8, 9], True)
    assert page(9, 3) == ([], True)
    assert page(ID_MAX, 1) == ([], True)
    assert page(ID_MIN, 1) == ([0], False)
    assert page(None, 10) == (list(range(10)), True)
    assert page(None, 2, "even") == ([0, 2], False)
    assert page(2, 3, "even") == ([4, 6, 8], True)
    assert page(None, 9, "Even") == ([], True)
    assert page(None, 9, "") == ([], True)


def test_a_scan_returns_a_snapshot_of_all_plants_in_order_of_id(store: Store) -> None:
    before = [NewPlant(id_, "a", "t") for id_ in range(2500)]
    store.apply_changes(before)
    scan = store.scan_plants()

    seen = list(next(scan))
    store.apply_changes([Deletion(2499), Replacement(2400, Plant("b")), NewPlant(5000, "c")])
    seen += [plant for plants in scan for plant in plants]

    assert seen == before
    assert store.count_plants() == 2500


def test_a_scan_of_an_empty_store_returns_no_plants(store: Store) -> None:
    assert [plant for plants in store.scan_plants() for plant in plants] == []


def test_a_check_of_an_intact_store_finds_no_problems(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a"), NewPlant(2, "b")])
    store.add_token(record("a"))

    found = store.check()

    assert (found.plants, found.tokens, found.problems) == (2, 1, [])


def test_a_token_is_found_only_by_its_digest(store: Store) -> None:
    first = record("first", scopes=frozenset({"plants:create", "plants:read"}), expires_at=9)
    second = record("second")
    store.add_token(first)
    store.add_token(second)

    assert store.find_token(first.digest) == first
    assert store.find_token(second.digest) == second
    assert store.find_token(b"x" * 32) is None


def test_tokens_are_listed_oldest_first_and_then_by_name(store: Store) -> None:
    for name, created_at in (("c", 2), ("b", 1), ("a", 2)):
        store.add_token(record(name, created_at=created_at))

    assert [one.name for one in store.list_tokens()] == ["b", "a", "c"]


def test_the_name_of_a_token_is_never_used_twice(store: Store) -> None:
    store.add_token(record("a"))
    store.revoke_token("a", 5)

    with pytest.raises(OperationError, match="'a'"):
        store.add_token(record("a", digest=b"y" * 32))

    assert [one.digest for one in store.list_tokens()] == [record("a").digest]


def test_a_second_revocation_keeps_the_time_of_the_first(store: Store) -> None:
    store.add_token(record("a"))

    assert store.revoke_token("a", 5).revoked_at == 5
    assert store.revoke_token("a", 6).revoked_at == 5
    found = store.find_token(record("a").digest)
    assert found is not None
    assert found.revoked_at == 5


def test_a_forgotten_token_is_removed_completely_and_other_tokens_stay(store: Store) -> None:
    first, second = record("first"), record("second")
    store.add_token(first)
    store.add_token(second)

    store.forget_token(first.digest)
    store.forget_token(first.digest)

    assert store.find_token(first.digest) is None
    assert store.list_tokens() == [second]
    store.add_token(first)
    assert store.find_token(first.digest) == first


def test_an_unknown_token_cannot_be_revoked(store: Store) -> None:
    with pytest.raises(OperationError, match="'a'"):
        store.revoke_token("a", 5)
