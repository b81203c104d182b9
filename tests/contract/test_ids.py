"""The ids that every store hands out: the promises of `PlantStore.hand_out_ids`."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest

from plantstore.changes import Deletion
from plantstore.errors import OperationError, StoreUnavailableError
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.storage import open_store
from plantstore.storage.postgres.store import HAND_OUT as POSTGRES_HAND_OUT
from plantstore.storage.sqlite.file import connect
from plantstore.storage.sqlite.store import HAND_OUT as SQLITE_HAND_OUT
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.storage.tables import hand_out_values
from plantstore.store import Store
from support.postgres import Databases, execute

# How often each of several threads asks for ids.
ROUNDS = 30


@pytest.fixture(params=["fake", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, open_new: Callable[[str], Store]) -> Iterator[Store]:
    opened = open_new(request.param)
    yield opened
    opened.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('ids')}/plants.db"
    databases: Databases = request.getfixturevalue("databases")
    return databases.new()


def test_the_ids_of_an_empty_store_begin_at_1(store: Store) -> None:
    assert store.hand_out_ids(1) == range(1, 2)
    assert store.hand_out_ids(1000) == range(2, 1002)
    assert store.hand_out_ids(1) == range(1002, 1003)


def test_the_ids_of_a_store_with_only_negative_ids_begin_at_1(store: Store) -> None:
    store.apply_changes([NewPlant(ID_MIN, "a"), NewPlant(-1, "b")])

    assert store.hand_out_ids(1) == range(1, 2)


def test_ids_are_above_the_greatest_plant_and_above_all_handed_out_before(store: Store) -> None:
    assert store.hand_out_ids(10) == range(1, 11)

    store.apply_changes([NewPlant(3, "a"), NewPlant(27_123, "b")])
    assert store.hand_out_ids(2) == range(27_124, 27_126)

    store.apply_changes([Deletion(27_123), NewPlant(27_124, "c")])
    assert store.hand_out_ids(1) == range(27_126, 27_127)


def test_ids_go_up_to_the_greatest_id_and_no_further(store: Store) -> None:
    store.apply_changes([NewPlant(ID_MAX - 3, "a")])

    with pytest.raises(OperationError, match="Fewer ids than 4 are left"):
        store.hand_out_ids(4)
    assert store.hand_out_ids(3) == range(ID_MAX - 2, ID_MAX + 1)
    with pytest.raises(OperationError, match="Fewer ids than 1 are left"):
        store.hand_out_ids(1)
    store.apply_changes([Deletion(ID_MAX - 3)])
    with pytest.raises(OperationError, match="Fewer ids than 1 are left"):
        store.hand_out_ids(1)


def test_after_the_deletion_of_the_greatest_plant_ids_are_left_again(store: Store) -> None:
    store.apply_changes([NewPlant(ID_MAX, "a")])
    with pytest.raises(OperationError, match="Fewer ids than 1 are left"):
        store.hand_out_ids(1)

    store.apply_changes([Deletion(ID_MAX)])

    assert store.hand_out_ids(1) == range(1, 2)


def test_ids_are_handed_out_once_to_threads_of_several_stores(database: str) -> None:
    barrier = threading.Barrier(6)

    def ask(store: Store, number: int) -> list[range]:
        barrier.wait()
        return [store.hand_out_ids(number + 1) for _ in range(ROUNDS)]

    with contextlib.ExitStack() as opened, ThreadPoolExecutor(6) as pool:
        stores = [opened.enter_context(contextlib.closing(open_store(database))) for _ in range(2)]
        asked = [pool.submit(ask, stores[number % 2], number) for number in range(6)]
        ranges = [ids for one in asked for ids in one.result(60)]

    ranges.sort(key=attrgetter("start"))
    assert ranges[0].start == 1
    assert all(earlier.stop == later.start for earlier, later in pairwise(ranges))
    assert [len(ids) for ids in ranges].count(6) == ROUNDS


def test_ids_that_were_handed_out_are_not_handed_out_after_a_restart(database: str) -> None:
    with contextlib.closing(open_store(database)) as store:
        assert store.hand_out_ids(5) == range(1, 6)

    with contextlib.closing(open_store(database)) as store:
        assert store.hand_out_ids(1) == range(6, 7)
        assert store.check().problems == []


def test_sqlite_finds_the_greatest_id_without_a_scan(tmp_path: Path) -> None:
    path = str(tmp_path / "plants.db")
    SQLiteStore(path).close()

    with contextlib.closing(connect(path, path)) as file:
        plan = file.execute(f"EXPLAIN QUERY PLAN {SQLITE_HAND_OUT}", hand_out_values(1)).fetchall()

    steps = [step for *_, step in plan]
    assert "SEARCH plants" in steps
    assert "SCAN plants" not in steps


def test_postgres_finds_the_greatest_id_without_a_scan(databases: Databases) -> None:
    url = databases.new()
    with contextlib.closing(open_store(url)) as store:
        store.apply_changes([NewPlant(id_, "a") for id_ in range(5000)])
    execute(url, "VACUUM ANALYZE plants")

    plan = execute(url, f"EXPLAIN {POSTGRES_HAND_OUT}" % hand_out_values(1))

    steps = "\n".join(step for (step,) in plan)
    assert "Index Only Scan Backward using plants_pkey" in steps
    assert "Seq Scan" not in steps


def test_ids_are_handed_out_again_after_a_failure(databases: Databases) -> None:
    url = databases.new()
    with contextlib.closing(open_store(url)) as store:
        assert store.hand_out_ids(1) == range(1, 2)
        execute(url, "ALTER TABLE handed_out_ids RENAME TO elsewhere")
        with pytest.raises(StoreUnavailableError):
            store.hand_out_ids(1)
        execute(url, "ALTER TABLE elsewhere RENAME TO handed_out_ids")

        assert store.hand_out_ids(1) == range(2, 3)
