"""Plants in PostgreSQL: pages, batches, locks, and the cost of large plants."""

import contextlib
import hashlib
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    Result,
    Upsert,
)
from plantstore.listings import PAGE_BYTES_MAX, Listing, Page
from plantstore.plants import NewPlant, Plant, PlantPatch
from plantstore.storage import open_store
from plantstore.storage.postgres.features import SELECT_SIZES
from plantstore.storage.postgres.pages import PLAN_OF_SEARCH, page_query, search_query
from plantstore.store import Store
from support.postgres import connected, execute, in_the_way, is_waiting, wait_until

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


def test_long_tags_are_stored_and_compared_completely(store: Store) -> None:
    tags = ["x" * 5000, "x" * 5000 + "y", "🌱" * 300_000]
    plants = [NewPlant(id_, "a", tag) for id_, tag in enumerate(tags)]
    store.apply_changes(plants)

    for plant in plants:
        assert store.list_plants(Listing(limit=9, tag=plant.tag)) == Page([plant], is_last=True)


# Two texts with the same MD5 (Marc Stevens, 2024). The index of tags consists of MD5 hashes.
COLLIDING = "TEXTCOLLBYfGiJUETHQ4h{}cKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"


def test_tags_with_the_same_hash_are_distinguished(store: Store) -> None:
    tags = [COLLIDING.format(letter) for letter in "AE"]
    assert len({hashlib.md5(tag.encode()).digest() for tag in tags}) == 1
    plants = [NewPlant(id_, "a", tag) for id_, tag in enumerate(tags)]
    store.apply_changes(plants)

    for plant in plants:
        assert store.list_plants(Listing(limit=9, tag=plant.tag)) == Page([plant], is_last=True)


def test_a_tag_that_no_plant_can_have_lists_no_plants(store: Store) -> None:
    store.apply_changes([PLANT])

    assert store.list_plants(Listing(limit=9, tag="a\0")) == Page([], is_last=True)


def test_a_page_of_large_plants_is_shortened_but_never_empty(store: Store) -> None:
    plants = [NewPlant(id_, "x" * (PAGE_BYTES_MAX * 2 // 5)) for id_ in range(5)]
    plants.append(NewPlant(5, "x" * 2_000_000))
    store.apply_changes(plants)

    assert store.list_plants(Listing(limit=9)) == Page(plants[:2], is_last=False)
    assert store.list_plants(Listing(after=1, limit=2)) == Page(plants[2:4], is_last=False)
    assert store.list_plants(Listing(after=3, limit=9)) == Page(plants[4:5], is_last=False)
    assert store.list_plants(Listing(after=4, limit=9)) == Page(plants[5:], is_last=True)
    assert [plant for plants in store.scan_plants() for plant in plants] == plants


@pytest.mark.parametrize("after", [None, 5000])
@pytest.mark.parametrize("tag", [None, "1"])
@pytest.mark.parametrize("is_known", [False, True])
def test_every_listing_uses_an_index_with_or_without_statistics(
    url: str, store: Store, after: int | None, tag: str | None, *, is_known: bool
) -> None:
    store.apply_changes([NewPlant(id_, "a", f"{id_ % 2}") for id_ in range(10_000)])
    bindings = {"after": after or 0, "tag": tag, "limit": 101, "bytes_max": 10**6}

    with connected(url) as connection:
        if is_known:
            connection.execute("ANALYZE plants")
        explain = "EXPLAIN " + page_query(Listing(after=after, tag=tag)).replace(")b", ")s")
        plan = "\n".join(line for (line,) in connection.execute(explain.encode(), bindings))

    assert f"Index Scan using {'plants_by_tag' if tag else 'plants_pkey'}" in plan
    assert "Seq Scan" not in plan
    assert "Sort" not in plan


@pytest.mark.parametrize("tag", [None, "1"])
def test_no_search_scans_the_table(url: str, store: Store, tag: str | None) -> None:
    store.apply_changes([NewPlant(id_, f"rosa {id_}", f"{id_ % 2}") for id_ in range(20_000)])
    listing = Listing(tag=tag, words=("rosa",))
    bindings = {"after": 0, "tag": tag, "limit": 101, "bytes_max": 10**6, "examined_max": 10_000}
    near, far = page_query(listing), search_query(listing)

    with connected(url) as connection:
        connection.execute("SET enable_bitmapscan = off")  # as connections of the store do
        connection.execute("ANALYZE plants")

        def plan(query: str, word: str) -> str:
            explain = f"EXPLAIN {query}".replace(")b", ")s")
            values = bindings | {"words": f"'{word}':*"}
            return "\n".join(line for (line,) in connection.execute(explain.encode(), values))

        examined = plan(near, "rosa")
        with connection.transaction():
            connection.execute(PLAN_OF_SEARCH)
            found = plan(far, "19999")

    assert f"Index Scan using {'plants_by_tag' if tag else 'plants_pkey'}" in examined
    assert "Bitmap Index Scan on plants_by_word" in found
    assert "Seq Scan" not in examined + found


@pytest.mark.parametrize(
    ("changes", "end", "outcomes"),
    [
        ([NewPlant(5, "mine")], "COMMIT", [Outcome.ID_TAKEN]),
        ([NewPlant(5, "theirs")], "COMMIT", [Outcome.ALREADY_STORED]),
        ([NewPlant(5, "mine")], "ROLLBACK", [Outcome.STORED]),
        (
            [Deletion(9), NewPlant(5, "mine"), Replacement(5, Plant("b"))],
            "COMMIT",
            [Outcome.NO_SUCH_PLANT, Outcome.ID_TAKEN, Outcome.REPLACED],
        ),
        (
            [Deletion(9), NewPlant(5, "mine"), Deletion(5)],
            "ROLLBACK",
            [Outcome.NO_SUCH_PLANT, Outcome.STORED, Outcome.DELETED],
        ),
    ],
)
def test_a_change_waits_for_another_store_that_is_taking_the_same_id(
    url: str, store: Store, changes: Sequence[Change], end: str, outcomes: list[Result]
) -> None:
    with (
        contextlib.closing(in_the_way(url, "INSERT INTO plants VALUES (5, 'theirs')")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        made = pool.submit(store.apply_changes, changes)
        if outcomes[-1] is not Outcome.DELETED:  # created and deleted in one batch: it takes no id
            wait_until(lambda: is_waiting(url))
        other.execute(end.encode())

        assert made.result(60) == outcomes


def test_a_plant_created_and_deleted_in_a_batch_leaves_another_stores_plant_alone(
    url: str, store: Store
) -> None:
    changes: list[Change] = [NewPlant(4, "mine"), NewPlant(5, "mine"), Deletion(5)]
    with (
        contextlib.closing(in_the_way(url, "INSERT INTO plants VALUES (4, 'theirs')")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        made = pool.submit(store.apply_changes, changes)
        wait_until(lambda: is_waiting(url))  # the batch is decided, and not written yet
        execute(url, "INSERT INTO plants VALUES (5, 'theirs')")
        other.rollback()

        assert made.result(60) == [Outcome.STORED, Outcome.STORED, Outcome.DELETED]
        assert store.find_plants([5]) == {5: NewPlant(5, "theirs")}


def test_ids_are_locked_in_ascending_order_so_that_there_is_no_deadlock(
    url: str, store: Store
) -> None:
    changes = [NewPlant(id_, "mine") for id_ in (3, 2, 1)]
    with (
        contextlib.closing(in_the_way(url, "INSERT INTO plants VALUES (2, 'theirs')")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        made = pool.submit(store.apply_changes, changes)
        wait_until(lambda: is_waiting(url))
        other.execute("INSERT INTO plants VALUES (3, 'theirs')")
        other.commit()

        assert made.result(60) == [Outcome.ID_TAKEN, Outcome.ID_TAKEN, Outcome.STORED]


def test_stores_that_change_the_same_plants_do_not_deadlock(
    url: str, opened: Callable[[str], Store]
) -> None:
    """A deadlock would end in an error after a second."""
    if_none = Precondition(if_none_match=ANY)

    def change(number: int) -> set[Outcome]:
        choose = random.Random(number)
        store, outcomes = opened(url), set[Outcome]()
        for _ in range(300):
            changes: list[Change] = []
            for id_ in choose.sample(range(30), 8):
                new = NewPlant(id_, f"{number}")
                others: list[Change] = [
                    *(Replacement(id_, Plant(f"{number}")), Deletion(id_)),
                    *(Patch(id_, PlantPatch(tag=f"{number}")), Conditional(Upsert(new), if_none)),
                ]
                changes.append(choose.choice([new, new, new, *others]))
            outcomes |= {
                result.outcome if isinstance(result, PlantOutcome) else result
                for result in store.apply_changes(changes)
            }
        return outcomes

    with contextlib.closing(open_store(url)), ThreadPoolExecutor(4) as pool:
        seen = set.union(*pool.map(change, range(4)))

    assert seen == set(Outcome) - {Outcome.TOO_LARGE}


def test_only_one_of_several_stores_on_a_database_gets_an_id(
    url: str, opened: Callable[[str], Store]
) -> None:
    barrier = threading.Barrier(3)

    def create(number: int) -> list[Result]:
        store = opened(url)
        barrier.wait()
        return [
            outcome
            for start in range(0, 300, 3)
            for outcome in store.apply_changes(
                [NewPlant(start + n, f"by {number}") for n in range(3)]
            )
        ]

    with contextlib.closing(open_store(url)), ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(create, range(3)))

    for thirds in zip(*outcomes, strict=True):
        assert sorted(outcome.name for outcome in thirds) == ["ID_TAKEN", "ID_TAKEN", "STORED"]


def blocks_read(url: str, query: str, bindings: Mapping[str, Any] | Sequence[Any]) -> int:
    """Return how many blocks a query and the sending of its rows read, including TOAST."""
    explain = "EXPLAIN (ANALYZE, BUFFERS, SERIALIZE BINARY, FORMAT JSON) "
    with connected(url) as connection:
        [[[found]]] = connection.execute((explain + query).encode(), bindings)
    return sum(
        found[part]["Shared Hit Blocks"] + found[part]["Shared Read Blocks"]
        for part in ("Plan", "Serialization")
    )


def test_a_listing_reads_only_those_large_plants_that_it_returns(url: str, store: Store) -> None:
    chance = random.Random(0)
    plants = [NewPlant(id_, chance.randbytes(50_000).hex()) for id_ in range(100)]
    store.apply_changes(plants)
    bindings = {"after": 0, "tag": None, "limit": 1001, "bytes_max": PAGE_BYTES_MAX}
    query = page_query(Listing()).replace(")b", ")s")

    page = blocks_read(url, query, bindings)
    everything = blocks_read(url, query, bindings | {"bytes_max": 10**9})
    lock = blocks_read(url, SELECT_SIZES.replace("%b", "%s"), (list(range(100)),))

    assert store.list_plants(Listing(limit=1000)) == Page(plants[:1], is_last=False)
    assert everything > 100 * 10
    assert page < 100
    assert lock < 300
