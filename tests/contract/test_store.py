"""What every store promises, one suite for all of them: the docstrings of plantstore.store."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plantstore.errors import UsageError
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.storage import open_store
from plantstore.storage.memory import MemoryStore
from plantstore.store import Outcome, Store
from plantstore.tokens import TokenRecord

Opener = Callable[[], Store]


@pytest.fixture(params=["memory", "sqlite"])
def open_another(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Return what opens a new, empty store at each call."""
    numbers = iter(range(10_000))

    def open_new() -> Store:
        if request.param == "memory":
            return MemoryStore()
        return open_store(f"sqlite:///{tmp_path}/{next(numbers)}.db")

    return open_new


@pytest.fixture
def store(open_another: Opener) -> Iterator[Store]:
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


def test_a_plant_may_meet_an_earlier_one_of_its_own_batch(store: Store) -> None:
    batch = [NewPlant(1, "a"), NewPlant(1, "b"), NewPlant(1, "a"), NewPlant(0, "b")]

    assert store.apply_changes(batch) == [
        Outcome.STORED,
        Outcome.ID_TAKEN,
        Outcome.ALREADY_STORED,
        Outcome.STORED,
    ]


def test_an_empty_batch_is_no_trouble(store: Store) -> None:
    assert store.apply_changes([]) == []


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
ids = st.sampled_from([ID_MIN, -1, 0, 1, 2**53 + 1, ID_MAX]) | st.integers(ID_MIN, ID_MAX)
plants = st.builds(NewPlant, ids, texts, st.none() | texts)


@given(st.lists(st.lists(plants, max_size=6), max_size=4))
@settings(
    max_examples=100,
    deadline=None,
    # Each example opens a store of its own.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_every_record_comes_back_as_it_was_and_every_outcome_is_that_of_one_by_one(
    open_another: Opener, batches: list[list[NewPlant]]
) -> None:
    opened = open_another()
    model: dict[int, NewPlant] = {}

    for batch in batches:
        expected = []
        for plant in batch:
            there = model.setdefault(plant.id, plant)
            if there is plant:
                expected.append(Outcome.STORED)
            else:
                same = there == plant
                expected.append(Outcome.ALREADY_STORED if same else Outcome.ID_TAKEN)
        assert opened.apply_changes(batch) == expected

    assert opened.apply_changes(list(model.values())) == [Outcome.ALREADY_STORED] * len(model)
    opened.close()


def test_a_token_is_found_by_its_digest_alone(store: Store) -> None:
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


def test_a_name_is_never_used_twice(store: Store) -> None:
    store.add_token(record("a"))
    store.revoke_token("a", 5)

    with pytest.raises(UsageError, match="'a'"):
        store.add_token(record("a", digest=b"y" * 32))

    assert [one.digest for one in store.list_tokens()] == [record("a").digest]


def test_a_revoked_token_stays_revoked_since_the_first_time(store: Store) -> None:
    store.add_token(record("a"))

    assert store.revoke_token("a", 5).revoked_at == 5
    assert store.revoke_token("a", 6).revoked_at == 5
    found = store.find_token(record("a").digest)
    assert found is not None
    assert found.revoked_at == 5


def test_a_token_that_is_not_there_cannot_be_revoked(store: Store) -> None:
    with pytest.raises(UsageError, match="'a'"):
        store.revoke_token("a", 5)
