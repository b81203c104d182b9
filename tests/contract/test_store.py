"""The promises of every store, from the docstrings of plantstore.store: one suite for all."""

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plantstore.changes import (
    ANY,
    AllInSet,
    Change,
    Conditional,
    Deletion,
    InSet,
    Patch,
    Precondition,
    Replacement,
    Swap,
    Upsert,
    entity_tag,
)
from plantstore.decision import decide
from plantstore.errors import OperationError
from plantstore.listings import PAGE_BYTES_MAX, Listing, Page, PlantsPage
from plantstore.plants import ID_MAX, ID_MIN, PLANT_BYTES_MAX, NewPlant, Plant, PlantPatch
from plantstore.storage import open_store
from plantstore.store import Store
from plantstore.tokens import TokenRecord
from support.following import Copy, everything, problems_of_sets

pytestmark = pytest.mark.engines("sqlite", "postgres")

SETS = ("set-a-0123456789", "set-b-0123456789")


def empty(store: Store) -> None:
    """Delete all plants. A new store for each example would take most of the time."""
    store.apply_changes([Deletion(plant.id) for plant in everything(store)])


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
names = st.sampled_from(["a", "b"]) | texts
tags = st.none() | st.sampled_from(["a", "b"]) | texts
ids = st.sampled_from([ID_MIN, -1, 0, 1, 2**53 + 1, ID_MAX]) | st.integers(ID_MIN, ID_MAX)
patches = st.builds(PlantPatch, st.just(msgspec.UNSET) | names, st.just(msgspec.UNSET) | tags)
creates = st.builds(NewPlant, ids, names, tags)
unconditional = st.one_of(
    st.builds(Upsert, creates, st.booleans()),
    st.builds(Replacement, ids, st.builds(Plant, names, tags)),
    st.builds(Patch, ids, patches),
    st.builds(Deletion, ids),
)
etags = st.builds(entity_tag, names, tags)
fields = st.none() | st.just(ANY) | st.frozensets(etags, max_size=3)
conditional = st.builds(Conditional, unconditional, st.builds(Precondition, fields, fields))
states = st.none() | st.builds(Plant, names, tags)
swaps = st.builds(Swap, ids, st.just(msgspec.UNSET) | states, states)
changes = creates | unconditional | conditional | swaps
sets = st.sampled_from(SETS)
batches_of_changes = st.one_of(
    st.lists(changes | st.builds(InSet, changes, sets), max_size=8),
    st.builds(AllInSet, st.lists(creates, max_size=8) | st.lists(changes, max_size=8), sets),
)


@given(st.lists(batches_of_changes, max_size=4))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_batches_have_the_same_outcomes_records_and_feed_as_single_changes(
    store: Store, batches: list[Sequence[Change]]
) -> None:
    """A copy of the plants follows the feed."""
    empty(store)
    store.keep_changes(7)
    plants, copy = dict[int, NewPlant](), Copy(number=store.read_changes(None, 1).end)

    for batch in batches:
        assert store.apply_changes(batch) == [decide([one], plants)[0][0] for one in batch]
        assert copy.follow(store, 3).plants == plants

    assert problems_of_sets(store, SETS) == []
    assert store.find_plants(list(plants)) == plants
    assert everything(store) == sorted(plants.values(), key=attrgetter("id"))


@pytest.mark.parametrize("tag", [None, "t"])
def test_a_page_of_large_plants_ends_early_and_the_next_page_continues(
    store: Store, tag: str | None
) -> None:
    large = NewPlant(0, "×" * (PLANT_BYTES_MAX // 2 - 20), tag)
    plants = [msgspec.structs.replace(large, id=id_) for id_ in range(400)]
    # An older version stored larger ones.
    plants += [NewPlant(400, "x" * 10 * PAGE_BYTES_MAX, tag), NewPlant(401, "x", tag)]
    store.apply_changes(plants)

    pages: list[list[NewPlant]] = []
    page: PlantsPage = Page([], None, is_last=False)
    while not page.is_last:
        page = store.list_plants(Listing(limit=1000, tag=tag).continued(page.end))
        pages.append(page.items)

    assert [plant for page in pages for plant in page] == plants
    assert all(pages[:-1])
    assert max(map(len, pages)) < 20
    assert everything(store) == plants


def test_a_scan_returns_a_snapshot_of_all_plants_in_order_of_id(store: Store) -> None:
    assert everything(store) == []
    before = [NewPlant(id_, "a", "t") for id_ in range(2500)]
    store.apply_changes(before)
    scan = store.scan_plants()

    seen = list(next(scan))
    store.apply_changes([Deletion(2499), Replacement(2400, Plant("b")), NewPlant(5000, "c")])
    seen += [plant for plants in scan for plant in plants]

    assert seen == before
    assert store.count_plants() == 2500


def record(name: str, **changes: Any) -> TokenRecord:
    made = TokenRecord(name, name.encode().ljust(32), frozenset({"plants:create"}), 1)
    return msgspec.structs.replace(made, **changes)


def test_a_token_is_found_only_by_its_digest_until_it_is_forgotten(store: Store) -> None:
    first = record("first", scopes=frozenset({"plants:create", "plants:read"}), expires_at=9)
    second = record("second")
    store.add_token(first)
    store.add_token(second)

    assert store.find_token(first.digest) == first
    assert store.find_token(second.digest) == second
    assert store.find_token(b"x" * 32) is None
    for _ in range(2):
        store.forget_token(first.digest)
        assert store.find_token(first.digest) is None
        assert store.list_tokens() == [second]
    store.add_token(first)
    assert store.find_token(first.digest) == first


def test_a_token_keeps_its_name_its_place_and_the_time_of_its_first_revocation(
    store: Store,
) -> None:
    with pytest.raises(OperationError, match='"a"'):
        store.revoke_token("a", 5)
    store.add_token(record("a"))

    assert store.revoke_token("a", 5).revoked_at == 5
    assert store.revoke_token("a", 6).revoked_at == 5
    with pytest.raises(OperationError, match='"a"'):
        store.add_token(record("a", digest=b"y" * 32))

    store.add_token(record("c", created_at=2))
    store.add_token(record("b", created_at=2))
    store.add_token(record("d", created_at=0))
    assert store.list_tokens()[1] == record("a", revoked_at=5)
    assert [one.name for one in store.list_tokens()] == ["d", "a", "b", "c"], "oldest first"


def test_ids_are_above_0_and_every_plant_and_all_ids_handed_out_before(store: Store) -> None:
    store.apply_changes([NewPlant(ID_MIN, "a"), NewPlant(-1, "b")])
    assert store.hand_out_ids(1) == range(1, 2)
    assert store.hand_out_ids(1000) == range(2, 1002)

    store.apply_changes([NewPlant(3, "a"), NewPlant(27_123, "b")])
    assert store.hand_out_ids(2) == range(27_124, 27_126)

    store.apply_changes([Deletion(27_123), NewPlant(27_124, "c")])
    assert store.hand_out_ids(1) == range(27_126, 27_127)


def test_ids_go_up_to_the_greatest_id_and_no_further(store: Store) -> None:
    def hand_out_too_many(count: int) -> None:
        with pytest.raises(OperationError, match=f"Fewer ids than {count} are left"):
            store.hand_out_ids(count)

    store.apply_changes([NewPlant(ID_MAX, "a")])
    hand_out_too_many(1)
    store.apply_changes([Deletion(ID_MAX)])
    assert store.hand_out_ids(1) == range(1, 2)

    store.apply_changes([NewPlant(ID_MAX - 3, "a")])
    hand_out_too_many(4)
    assert store.hand_out_ids(3) == range(ID_MAX - 2, ID_MAX + 1)
    hand_out_too_many(1)
    store.apply_changes([Deletion(ID_MAX - 3)])
    hand_out_too_many(1)


def test_ids_are_handed_out_once_to_threads_of_several_stores_and_after_a_restart(
    database: str,
) -> None:
    barrier = threading.Barrier(6)

    def ask(store: Store, number: int) -> list[range]:
        barrier.wait()
        return [store.hand_out_ids(number + 1) for _ in range(30)]

    with contextlib.ExitStack() as opened, ThreadPoolExecutor(6) as pool:
        stores = [opened.enter_context(contextlib.closing(open_store(database))) for _ in range(2)]
        asked = [pool.submit(ask, stores[number % 2], number) for number in range(6)]
        ranges = sorted((ids for one in asked for ids in one.result(60)), key=attrgetter("start"))
    with contextlib.closing(open_store(database)) as later:
        ranges.append(later.hand_out_ids(1))
        problems = later.check().problems

    assert ranges[0].start == 1
    assert all(earlier.stop == later.start for earlier, later in pairwise(ranges))
    assert [len(ids) for ids in ranges].count(6) == 30
    assert problems == []
