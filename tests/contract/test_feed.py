"""The promises of the feed in `PlantStore`, for every store."""

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from plantstore.changes import (
    Conditional,
    Deletion,
    Outcome,
    Patch,
    Precondition,
    Replacement,
    Upsert,
)
from plantstore.errors import ErrorCode, FeedError
from plantstore.feed import CHANGES_MAX, Kind
from plantstore.listings import PAGE_BYTES_MAX, Page
from plantstore.plants import ID_MAX, NewPlant, Plant, PlantPatch
from plantstore.storage import open_store
from plantstore.storage.sqlite.sqlite_feed import TRIM_CHANGES
from plantstore.store import Store
from support.following import Copy, plants_of
from support.other_programs import change
from support.postgres import execute, in_the_way, is_waiting, wait_until

CREATED, REPLACED, DELETED = Kind

pytestmark = pytest.mark.engines("sqlite", "postgres")

STALE = Precondition(if_match=frozenset({'"0"'}))


@pytest.fixture
def store(store: Store) -> Store:
    store.keep_changes(7)
    return store


@contextlib.contextmanager
def refused(code: ErrorCode, first: int | None = None) -> Iterator[None]:
    """Assert that a follower cannot continue, and that the error has the first number left."""
    with pytest.raises(FeedError) as caught:
        yield
    assert (caught.value.code, caught.value.first_number) == (code, first)
    assert str(first or "") in caught.value.message


def test_the_feed_has_each_change_that_was_made_in_order_and_no_other(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a", "t"), NewPlant(ID_MAX, "ä b")])
    store.apply_changes([NewPlant(1, "a", "t"), NewPlant(1, "b"), Deletion(2)])
    store.apply_changes(
        [
            *(Replacement(1, Plant("b")), Patch(1, PlantPatch(tag="u")), Patch(1, PlantPatch("b"))),
            *(Upsert(NewPlant(1, "b", "u")), Upsert(NewPlant(3, "c")), Deletion(ID_MAX)),
            *(Conditional(each, STALE) for each in (Deletion(1), Replacement(1, Plant("b", "u")))),
        ]
    )
    store.apply_changes([Deletion(1), NewPlant(1, "again")])

    changes = Copy().follow(store).changes

    assert [(each.kind, each.id, each.name, each.tag) for each in changes] == [
        *((CREATED, 1, "a", "t"), (CREATED, ID_MAX, "ä b", None)),
        *((REPLACED, 1, "b", None), (REPLACED, 1, "b", "u"), (CREATED, 3, "c", None)),
        *((DELETED, ID_MAX, None, None), (DELETED, 1, None, None), (CREATED, 1, "again", None)),
    ]


def test_pages_continue_after_a_number_and_the_last_page_is_marked(store: Store) -> None:
    store.apply_changes([NewPlant(id_, "a") for id_ in range(5)])
    numbers = [change.number for change in store.read_changes(0, 10).items]

    pages = [store.read_changes(after, 2) for after in (0, numbers[1], numbers[2], numbers[4])]

    assert [[each.id for each in page.items] for page in pages] == [[0, 1], [2, 3], [3, 4], []]
    assert [page.is_last for page in pages] == [False, False, True, True]
    assert [page.end for page in pages] == [numbers[1], numbers[3], numbers[4], numbers[4]]
    assert store.read_changes(None, 9) == Page([], numbers[4], is_last=True)


def test_a_page_of_large_plants_ends_early_and_has_at_least_one(store: Store) -> None:
    long = "×" * (PAGE_BYTES_MAX // 5)
    store.apply_changes([NewPlant(id_, long) for id_ in range(3)])
    store.apply_changes([NewPlant(3, "x" * (2 * PAGE_BYTES_MAX)), NewPlant(4, "x")])

    pages, page = [], store.read_changes(0, 100)
    while not page.is_last:
        pages.append([change.id for change in page.items])
        page = store.read_changes(page.end, 100)

    assert [*pages, [change.id for change in page.items]] == [[0, 1], [2], [3], [4]]


def test_a_number_that_the_feed_never_had_is_refused(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a"), NewPlant(2, "a")])
    store.keep_changes(30)  # another time leaves the feed as it is
    first, last = (change.number for change in store.read_changes(0, 9).items)

    for number in (first - 1, last + 1, 2**63 - 1, 1):
        with refused(ErrorCode.CHANGES_GONE, first):
            store.read_changes(number, 1)


def test_no_follower_continues_after_the_feed_was_off(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a")])
    before = store.read_changes(None, 1).end
    store.keep_changes(0)
    store.apply_changes([NewPlant(2, "a")])

    store.keep_changes(7)

    begin = store.read_changes(None, 1).end
    for number in (0, before):
        with refused(ErrorCode.CHANGES_GONE):
            store.read_changes(number, 1)
    store.apply_changes([NewPlant(3, "a")])
    assert [change.id for change in store.read_changes(begin, 9).items] == [3]


def test_numbers_are_not_ahead_of_the_clock_though_commits_follow_one_another_at_once(
    database: str,
) -> None:
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(7)
        for id_ in range(100):
            store.apply_changes([NewPlant(id_, "a")])

        assert store.read_changes(None, 1).end < (time.time() + 1) * 1e6


@pytest.mark.parametrize("settings", [[], [0, 7]])
def test_no_lost_number_is_given_again_after_a_restore_even_if_the_clock_was_ahead(
    database: str, settings: list[int]
) -> None:
    year = 365 * 86_400 * 1_000_000
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(7)
        store.apply_changes([NewPlant(1, "a")])
        change(database, f"UPDATE feed SET last = last + {year}")
        store.apply_changes([Deletion(1)])
        last = store.read_changes(None, 1).end

        def change_plants() -> list[int]:
            """Return the last numbers of some transactions."""
            for days in settings:
                store.keep_changes(days)
            ends = [store.read_changes(None, 1).end]
            for plants in ([NewPlant(id_, "a") for id_ in range(1_000)], [Deletion(0)]):
                store.apply_changes(plants)
                ends.append(store.read_changes(None, 1).end)
            return ends

        lost = set(change_plants()) - {last}
        change(database, "DELETE FROM plants", f"DELETE FROM changes WHERE number > {last}")
        change(database, f"UPDATE feed SET last = {last}, kept_after = 0, kept = 2")
        given = Copy(number=change_plants()[0]).follow(store).changes

        assert last < given[0].number < given[-1].number < 2**53
        for number in lost:
            with pytest.raises(FeedError) as gone:
                store.read_changes(number, 1)
            assert gone.value.code == ErrorCode.CHANGES_GONE


def test_whoever_waits_for_changes_notices_a_commit(store: Store) -> None:
    with store.watch_changes() as wait:
        assert not wait(0)
        store.apply_changes([NewPlant(1, "a")])
        assert wait(30)
        while wait(0):
            pass
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(wait, 30)
            store.apply_changes([Deletion(1)])
            assert waiting.result()


def test_a_scan_tells_the_number_of_its_snapshot(store: Store) -> None:
    store.apply_changes([NewPlant(1, "a")])
    numbers: list[int | None] = []
    scan = store.scan_plants(on_number=numbers.append)
    plants = {plant.id: plant for plant in next(scan)}
    store.apply_changes([NewPlant(2, "b"), Deletion(1)])

    [number] = numbers
    scan.close()

    assert number is not None
    assert Copy(plants, number).follow(store).plants == plants_of(store)
    store.keep_changes(0)
    list(store.scan_plants(on_number=numbers.append))
    assert numbers[1:] == [None]


WEEK = 7 * 86_400
AHEAD = f"UPDATE changes SET at = at + {365 * 86_400} WHERE id < 2500"

# What is done to the changes of the plants 0 to 2999, and the first plant whose change is kept.
AGED = {
    "old ones": ([f"UPDATE changes SET at = at - {WEEK} WHERE id < 2500"], 2500),
    "an old one behind a young one": ([f"UPDATE changes SET at = at - {WEEK} WHERE id = 1"], 0),
    # A clock that was ahead keeps no change for longer: it is as old as the next change.
    "future ones": ([AHEAD], 0),
    "future ones before an old one": (
        [AHEAD, f"UPDATE changes SET at = at - {WEEK} WHERE id = 2500"],
        2501,
    ),
    "too many": ([f"UPDATE feed SET kept = {CHANGES_MAX + 1000}"], 1000),
}


@pytest.mark.parametrize("case", AGED)
def test_changes_that_are_too_old_or_too_many_are_trimmed_and_the_others_stay(
    database: str, case: str
) -> None:
    statements, first = AGED[case]
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(7)
        store.apply_changes([NewPlant(id_, "a") for id_ in range(3000)])
        change(database, *statements)
        before = Copy().follow(store).changes

        turns = 0
        while store.maintain() == 0:
            turns += 1
            assert turns < 100

        kept = Copy(number=before[first - 1].number if first else 0)
        kept.plants = {each.id: NewPlant(each.id, "a") for each in before[:first]}
        assert kept.follow(store).changes == before[first:]
        assert turns >= first // 1000, "each transaction is small"
        if first:
            with refused(ErrorCode.CHANGES_GONE, before[first].number):
                store.read_changes(before[first - 1].number - 1, 1)
        assert store.check().problems == []


def test_a_feed_that_is_off_keeps_no_change_also_if_its_time_is_in_the_future(
    path: Path,
) -> None:
    database = f"sqlite:///{path}"
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(7)
        store.apply_changes([NewPlant(id_, "a") for id_ in range(3)])
        change(database, AHEAD)
        store.keep_changes(0)

        store.maintain()

        kept = apsw.Connection(str(path)).execute("SELECT count(*) FROM changes").get
    assert kept == 0


def test_changes_are_trimmed_beside_commits_at_least_as_fast_as_they_come(path: Path) -> None:
    database = f"sqlite:///{path}"
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(1)
        store.apply_changes([NewPlant(id_, "a") for id_ in range(2 * TRIM_CHANGES)])
        change(database, "UPDATE changes SET at = at - 86400")

    with contextlib.closing(open_store(database)) as store:
        for first in range(10_000, 10_000 + TRIM_CHANGES, 50):
            store.apply_changes([NewPlant(id_, "a") for id_ in range(first, first + 50)])

        kept = (
            apsw.Connection(str(path)).execute("SELECT count(*), min(id) FROM changes").fetchall()
        )

    assert kept == [(TRIM_CHANGES, 10_000)]


def test_changes_are_acknowledged_if_old_ones_cannot_be_trimmed(path: Path) -> None:
    database = f"sqlite:///{path}"
    plants = [NewPlant(id_, "a") for id_ in range(TRIM_CHANGES)]
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(1)
        store.apply_changes(plants)
        change(database, "UPDATE changes SET at = at - 86400")
        nowhere = "BEFORE DELETE ON changes BEGIN DELETE FROM nowhere; END"
        change(database, f"CREATE TRIGGER broken {nowhere}")

        outcomes = store.apply_changes([Deletion(plant.id) for plant in plants])

        change(database, "DROP TRIGGER broken")
        store.apply_changes(plants)
        kept = apsw.Connection(str(path)).execute("SELECT count(*) FROM changes").get

    assert outcomes == [Outcome.DELETED] * len(plants)
    assert kept == 2 * TRIM_CHANGES, "the old ones are trimmed later"


def test_no_follower_skips_a_change_of_a_transaction_that_is_held_open(
    url: str, opened: Callable[..., Store]
) -> None:
    """The first transaction has its number already; the second one commits first if it can."""
    first, second, reading = (opened(url) for _ in range(3))
    first.keep_changes(7)
    # A deferred trigger holds the commit of plant 1, after all statements of its transaction.
    execute(
        url,
        """
        CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER held AFTER INSERT ON changes
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.id = 1)
        EXECUTE FUNCTION wait_here();
        """,
    )
    held = in_the_way(url, "SELECT pg_advisory_xact_lock(1)")
    copy = Copy()

    with ThreadPoolExecutor(2) as pool:
        changing = [pool.submit(first.apply_changes, [NewPlant(1, "a")])]
        wait_until(lambda: is_waiting(url))
        changing += [pool.submit(second.apply_changes, [NewPlant(2, "b")])]
        wait_until(lambda: is_waiting(url, 2) or changing[1].done())
        copy.follow(reading)
        held.close()
        for each in changing:
            assert each.result() == [Outcome.STORED]

    assert copy.follow(reading).plants == plants_of(reading)
    assert sorted(copy.plants) == [1, 2]


def test_a_long_transaction_of_another_program_delays_no_change(
    url: str, opened: Callable[..., Store]
) -> None:
    store = opened(url)
    store.keep_changes(7)
    other = in_the_way(url, "CREATE TABLE of_another_program ()")

    store.apply_changes([NewPlant(1, "a")])

    assert Copy().follow(store).plants == {1: NewPlant(1, "a")}
    other.close()
