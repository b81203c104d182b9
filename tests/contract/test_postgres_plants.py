"""Plants in PostgreSQL: plans, batches, locks, and the cost of large plants."""

import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest

from plantstore.changes import (
    ANY,
    AllInSet,
    Change,
    Conditional,
    Deletion,
    InSet,
    Outcome,
    Patch,
    PlantOutcome,
    Precondition,
    Replacement,
    Result,
    SingleChange,
    Upsert,
)
from plantstore.listings import Listing
from plantstore.plants import NewPlant, Plant, PlantPatch
from plantstore.storage import open_store
from plantstore.storage.postgres.postgres_pages import PLAN_OF_SEARCH, page_query, search_query
from plantstore.storage.postgres.session import Connection
from plantstore.storage.tables import hand_out_query, hand_out_values
from plantstore.store import Store
from support.postgres import connected, execute, in_the_way, is_waiting, wait_until

pytestmark = pytest.mark.engines("postgres")


def plan(
    connection: Connection, query: str, bindings: Mapping[str, Any] | Sequence[Any], *before: bytes
) -> str:
    """Return the plan of a query, with these settings."""
    with connection.transaction():
        for setting in before:
            connection.execute(setting)
        explain = f"EXPLAIN {query}".replace(")b", ")s")
        return "\n".join(line for (line,) in connection.execute(explain.encode(), bindings))


def test_no_listing_and_no_search_scans_the_table(url: str, store: Store) -> None:
    store.apply_changes([NewPlant(id_, f"rosa {id_}", f"{id_ % 2}") for id_ in range(20_000)])
    values: dict[str, Any] = {"limit": 101}
    no_bitmaps = b"SET LOCAL enable_bitmapscan = off"  # as connections of the store do
    with connected(url) as connection:
        for is_known, tag, after in product((False, True), (None, "1"), (None, 5000)):
            if is_known:
                connection.execute("ANALYZE plants")
            bindings = values | {"after": after or 0, "tag": tag, "words": "'rosa':*"}
            index = f"Index Scan using {'plants_by_tag' if tag else 'plants_pkey'}"

            for words in (None, ("rosa",)) if is_known else (None,):
                query = page_query(Listing(after=after, tag=tag, words=words))
                steps = plan(connection, query, bindings, *[no_bitmaps] if words else [])
                assert index in steps
                assert "Seq Scan" not in steps
                assert words or "Sort" not in steps

        connection.execute("VACUUM ANALYZE plants")
        for tag in (None, "1"):
            bindings = values | {"after": 0, "tag": tag, "words": "'19999':*"}
            query = search_query(Listing(tag=tag, words=("rosa",)))
            steps = plan(connection, query, bindings, no_bitmaps, PLAN_OF_SEARCH.encode())
            assert "Bitmap Index Scan on plants_by_word" in steps
            assert "Seq Scan" not in steps
        steps = plan(connection, hand_out_query("%s", "greatest"), hand_out_values(1))
        assert "Index Only Scan Backward using plants_pkey" in steps
        assert "Seq Scan" not in steps


@pytest.mark.parametrize(
    ("changes", "end", "outcomes"),
    [
        ([NewPlant(5, "mine")], "ROLLBACK", [Outcome.STORED]),
        (
            [Deletion(9), NewPlant(5, "mine"), Replacement(5, Plant("b"))],
            "COMMIT",
            [Outcome.NO_SUCH_PLANT, Outcome.ID_TAKEN, Outcome.REPLACED],
        ),
        # What is created and deleted in a batch leaves another store's plant alone.
        (
            [NewPlant(5, "mine"), NewPlant(6, "mine"), Deletion(6)],
            "ROLLBACK",
            [Outcome.STORED, Outcome.STORED, Outcome.DELETED],
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
        wait_until(lambda: is_waiting(url))  # the batch is decided, and not written yet
        execute(url, "INSERT INTO plants VALUES (6, 'theirs')")
        other.execute(end.encode())

        assert made.result(60) == outcomes
        assert store.find_plants([6]) == {6: NewPlant(6, "theirs")}


def test_stores_that_change_the_same_plants_do_not_deadlock(
    url: str, opened: Callable[..., Store]
) -> None:
    """A deadlock would end in an error after a second. All lock the ids in ascending order."""
    if_none = Precondition(if_none_match=ANY)

    def change(number: int) -> set[Outcome]:
        choose = random.Random(number)
        store, outcomes = opened(url), set[Outcome]()
        for round_ in range(50):
            if round_ == 25:
                store.close_set(f"set-{number}")
            changes: list[Change] = []
            for id_ in choose.sample(range(30), 8):
                new = NewPlant(id_, f"{number}")
                others: list[SingleChange] = [
                    *(Replacement(id_, Plant(f"{number}")), Deletion(id_)),
                    *(Patch(id_, PlantPatch(tag=f"{number}")), Conditional(Upsert(new), if_none)),
                ]
                change = choose.choice([new, new, new, *others])
                in_set = InSet(change, f"set-{choose.randrange(4)}")
                changes.append(choose.choice([change, in_set]))
            singles = [each.change if isinstance(each, InSet) else each for each in changes]
            in_one = AllInSet(singles, f"set-{choose.randrange(4)}")
            batch = changes if choose.random() < 0.7 else in_one
            outcomes |= {
                result.outcome if isinstance(result, PlantOutcome) else result
                for result in store.apply_changes(batch)
            }
        return outcomes

    with contextlib.closing(open_store(url)) as first, ThreadPoolExecutor(4) as pool:
        first.keep_changes(7)
        seen = set.union(*pool.map(change, range(4)))

    assert seen == set(Outcome) - {Outcome.TOO_LARGE}
