"""The promises of change sets in `PlantStore`, for every store, and what an undo makes of a set."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from plantstore.change_sets import KEPT_IDS_MAX, UndoCounts, Walk, settle
from plantstore.changes import (
    AllInSet,
    Change,
    Deletion,
    InSet,
    Outcome,
    Patch,
    PlantOutcome,
    Replacement,
    Swap,
    Upsert,
)
from plantstore.errors import ErrorCode, FeedError
from plantstore.feed import Kind
from plantstore.listings import PAGE_BYTES_MAX
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant, PlantPatch
from plantstore.storage import open_store
from plantstore.store import Store
from support.following import Copy, plants_of, undo, walk
from support.other_programs import change
from support.postgres import execute, in_the_way, is_waiting, wait_until

pytestmark = pytest.mark.engines("sqlite", "postgres")

SET, OTHER = "set-a-0123456789", "set-b-0123456789"
CREATED, REPLACED, DELETED = Kind


@pytest.fixture
def store(store: Store) -> Store:
    store.keep_changes(7)
    return store


@contextlib.contextmanager
def refused(code: ErrorCode) -> Iterator[None]:
    with pytest.raises(FeedError) as caught:
        yield
    assert caught.value.code is code


def changes_of(store: Store, name: str) -> list[tuple[object, ...]]:
    """Return the changes of a set, without their numbers."""
    return [each[1:] for each in walk(store, name)]


def test_a_set_has_its_changes_by_id_with_what_the_plants_were_before(store: Store) -> None:
    store.apply_changes([InSet(NewPlant(ID_MAX, "a", "t"), SET), NewPlant(2, "b", "u")])
    store.apply_changes([InSet(NewPlant(ID_MIN, "ä"), SET), InSet(NewPlant(5, "e"), OTHER)])
    store.apply_changes(
        [
            *(InSet(NewPlant(ID_MAX, "a", "t"), SET), InSet(NewPlant(2, "x"), SET)),
            *(InSet(Replacement(2, Plant("c")), SET), InSet(Patch(2, PlantPatch(tag="v")), SET)),
            *(InSet(Upsert(NewPlant(5, "f")), SET), Upsert(NewPlant(5, "g")), Deletion(9)),
            *(InSet(Deletion(ID_MAX), SET), InSet(Deletion(7), SET)),
        ]
    )

    assert changes_of(store, SET) == [
        (CREATED, ID_MIN, "ä", None, None, None),
        (REPLACED, 2, "c", None, "b", "u"),
        (REPLACED, 2, "c", "v", "c", None),
        (REPLACED, 5, "f", None, "e", None),
        (CREATED, ID_MAX, "a", "t", None, None),
        (DELETED, ID_MAX, None, None, "a", "t"),
    ]
    assert changes_of(store, OTHER) == [(CREATED, 5, "e", None, None, None)]
    assert store.read_set(SET, None, 0) == ([], 6)


def test_of_creates_with_one_id_in_a_batch_the_first_one_is_recorded(store: Store) -> None:
    for first, name in enumerate((SET, OTHER)):
        plant = NewPlant(first, "a")
        store.apply_changes([plant, InSet(plant, name), NewPlant(first + 2, "b")])
        store.apply_changes(AllInSet([NewPlant(first + 4, "c")] * 2, name))

    assert changes_of(store, SET) == [(CREATED, 4, "c", None, None, None)]
    assert changes_of(store, OTHER) == [(CREATED, 5, "c", None, None, None)]


def test_pages_of_a_set_continue_within_the_changes_of_a_plant(store: Store) -> None:
    store.apply_changes([InSet(NewPlant(id_, "a"), SET) for id_ in (1, -1, 2)])
    for round_ in range(4):
        store.apply_changes([InSet(Upsert(NewPlant(1, f"{round_}")), SET)])

    assert [each.id for each in walk(store, SET, 2)] == [-1, 1, 1, 1, 1, 1, 2]
    assert walk(store, SET, 2) == walk(store, SET, 3) == walk(store, SET, 100)


def test_a_page_of_a_set_counts_the_texts_of_the_plants_before(store: Store) -> None:
    long = "×" * (PAGE_BYTES_MAX // 5)
    store.apply_changes([NewPlant(id_, long, "t") for id_ in range(3)])
    store.apply_changes([NewPlant(3, "x" * (2 * PAGE_BYTES_MAX)), NewPlant(4, "x")])
    store.apply_changes([InSet(Deletion(id_), SET) for id_ in range(5)])

    pages, after = [], None
    while changes := store.read_set(SET, after, 100).changes:
        pages.append([change.id for change in changes])
        after = changes[-1].id, changes[-1].number

    assert pages == [[0, 1], [2], [3], [4]]


def test_no_change_is_made_in_a_closed_set_and_its_neighbours_are(store: Store) -> None:
    store.apply_changes([InSet(NewPlant(1, "a"), SET), InSet(NewPlant(1, "a"), OTHER)])

    store.close_set(SET)
    store.close_set(SET)
    store.close_set(OTHER)  # there is none
    creates: list[Change] = [
        InSet(NewPlant(2, "b"), SET),
        NewPlant(3, "c"),
        InSet(NewPlant(4, "d"), OTHER),
    ]
    others: list[Change] = [InSet(Deletion(1), SET), InSet(NewPlant(1, "a"), SET), Deletion(3)]

    assert store.apply_changes(creates) == [Outcome.SET_CLOSED, *[Outcome.STORED] * 2]
    assert store.apply_changes(others) == [*[Outcome.SET_CLOSED] * 2, Outcome.DELETED]
    assert store.apply_changes(AllInSet([NewPlant(5, "e")] * 2, SET)) == [Outcome.SET_CLOSED] * 2
    assert plants_of(store) == {1: NewPlant(1, "a"), 4: NewPlant(4, "d")}
    assert changes_of(store, SET) == [(CREATED, 1, "a", None, None, None)]
    assert changes_of(store, OTHER) == [(CREATED, 4, "d", None, None, None)]


def test_a_set_whose_first_change_is_trimmed_is_refused_and_one_without_changes_is_gone(
    database: str,
) -> None:
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(7)
        store.apply_changes([InSet(NewPlant(1, "a"), SET), InSet(NewPlant(2, "a"), OTHER)])
        first = Copy().follow(store).changes
        store.apply_changes([InSet(Deletion(1), SET)])
        old = f"UPDATE changes SET at = at - {7 * 86_400} WHERE number <= {first[-1].number}"
        change(database, old)

        while store.maintain() == 0:
            pass

        with refused(ErrorCode.CHANGES_GONE):
            store.read_set(SET, None, 1)
        with refused(ErrorCode.NO_SUCH_SET):
            store.read_set(OTHER, None, 1)
        store.apply_changes([InSet(NewPlant(3, "a"), OTHER)])
        assert changes_of(store, OTHER) == [(CREATED, 3, "a", None, None, None)]
        assert store.check().problems == []


def test_an_undo_gives_each_plant_back_unless_others_have_changed_it(store: Store) -> None:
    store.apply_changes([NewPlant(id_, "a", "t") for id_ in range(1, 9)])
    before = plants_of(store)
    store.apply_changes([InSet(Deletion(id_), SET) for id_ in (1, 2)])
    store.apply_changes([InSet(Upsert(NewPlant(id_, "b")), SET) for id_ in (2, 3, 4, 5, 6, 20, 21)])
    store.apply_changes([Upsert(NewPlant(id_, "other")) for id_ in (4, 5)])
    for name in "cd":
        store.apply_changes([InSet(Upsert(NewPlant(id_, name)), SET) for id_ in (3, 5)])
    store.apply_changes([Upsert(NewPlant(6, "a", "t")), Deletion(21)])

    begun = Walk().take(store.read_set(SET, None, 3))
    store.apply_changes(begun)  # an undo that ended after a part
    counts = undo(store, SET)

    assert counts == UndoCounts(restored=3, deleted=2, recreated=1, kept=2, kept_ids=[4, 5])
    assert plants_of(store) == before | {4: NewPlant(4, "other"), 5: NewPlant(5, "d")}
    made = Copy().follow(store).number
    assert undo(store, SET) == counts
    assert Copy().follow(store).number == made  # nothing is recorded


def test_an_undo_lists_only_the_first_plants_that_it_keeps() -> None:
    counts, many = UndoCounts(), KEPT_IDS_MAX + 10
    swaps = [Swap(id_, Plant("a"), None) for id_ in range(many)]

    settle(counts, swaps, [PlantOutcome(Outcome.PRECONDITION_FAILED, None)] * many)

    assert (counts.kept, counts.kept_ids) == (many, [*range(KEPT_IDS_MAX)])


def test_a_set_that_is_closed_while_its_change_waits_for_the_feed_gets_no_change(
    url: str, opened: Callable[..., Store]
) -> None:
    first, second = opened(url), opened(url)
    first.keep_changes(7)
    first.apply_changes([InSet(NewPlant(1, "a"), SET)])
    batches: list[Sequence[Change]] = [
        AllInSet([NewPlant(2, "b")], SET),
        [InSet(Deletion(1), SET), NewPlant(3, "c")],
    ]
    for batch in batches:
        held = in_the_way(url, "SELECT * FROM feed FOR UPDATE")
        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(first.apply_changes, batch)
            wait_until(lambda: is_waiting(url))
            second.close_set(SET)
            held.close()
            assert changing.result()[0] is Outcome.SET_CLOSED
        execute(url, "UPDATE change_sets SET closed = false")

    assert plants_of(first) == {1: NewPlant(1, "a"), 3: NewPlant(3, "c")}
