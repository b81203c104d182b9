"""Imports in the test's process."""

import asyncio
import random
from collections.abc import Sequence

import pytest

from plantstore.api.auth import ConcurrencyLimit
from plantstore.api.file_imports import SHARED_BATCH_ROWS_MAX
from plantstore.changes import Change, Result
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.errors import ErrorCode, StoreUnavailableError, StoreUnreachableError
from plantstore.formats import FORMATS
from plantstore.observe import Imported
from plantstore.plants import NewPlant
from support.stores import GatedStore, MemoryStore
from support.streams import lines
from support.world import VALID, World, until

NDJSON = {"Content-Type": "application/x-ndjson"}
CSV = {"Content-Type": "text/csv"}


def test_an_import_that_is_cancelled_twice_keeps_its_place_until_its_batch_is_settled() -> None:
    store = GatedStore()
    rows = b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n'

    async def cancel_twice() -> tuple[int, int]:
        others = asyncio.all_tasks()
        sending = world.sending("POST", "/plants.ndjson", rows, fields=NDJSON)
        task = asyncio.ensure_future(sending)
        await asyncio.to_thread(store.entered.acquire)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        answer = await task
        told = len(world.told(Imported))
        store.let_go.release()
        await asyncio.wait(asyncio.all_tasks() - others)
        return answer.status_code, told

    with World(store) as world:
        status, told_before = world.run(cancel_twice())

    assert (status, told_before) == (503, 0)
    assert [event.counts["stored"] for event in world.told(Imported)] == [2]


@pytest.mark.parametrize("is_shared", [True, False])
def test_batches_are_small_beside_single_changes(*, is_shared: bool) -> None:
    store, shared = GatedStore(), SHARED_BATCH_ROWS_MAX

    async def send() -> None:
        async with asyncio.TaskGroup() as group:
            if is_shared:
                group.create_task(world.sending("POST", "/plants", VALID))
                await asyncio.to_thread(store.entered.acquire)
            rows = lines(2, 2 * shared + 2)
            group.create_task(world.sending("POST", "/plants.ndjson", rows, fields=NDJSON))
            # The import has parsed rows, and its first batch waits.
            await until(lambda: world.parts.writer.waiting >= shared)
            store.let_go.release(4)

    with World(store) as world:
        world.run(send())

    sizes = [len(batch) for batch in store.batches]
    assert sizes == ([1, shared, shared, 1] if is_shared else [2 * shared + 1])


def test_an_import_that_fails_after_it_stored_rows_does_not_say_that_nothing_was_done() -> None:
    class Failing(MemoryStore):
        def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
            if self.plants:
                raise StoreUnreachableError("The database cannot be reached")
            return super().apply_changes(changes)

    with World(Failing()) as world:
        rows = lines(1, BATCH_ROWS_MAX + 1)
        answer = world.send("POST", "/plants.ndjson", rows, fields=NDJSON)

    assert len(world.store.plants) == BATCH_ROWS_MAX
    assert (answer.status_code, answer.json()) == (
        503,
        {
            "error": ErrorCode.STORE_UNAVAILABLE,
            "message": "The database cannot be reached",
            "lines_stored_through": BATCH_ROWS_MAX,
        },
    )


def test_an_import_over_the_limit_is_503_and_stores_nothing(world: World) -> None:
    world.parts.imports.limit = ConcurrencyLimit(0, "imports")

    answer = world.send("POST", "/plants.ndjson", lines(1, 1), fields=NDJSON)

    assert (answer.status_code, answer.json()["error"]) == (503, ErrorCode.OVERLOADED)
    assert not world.store.plants


@pytest.mark.parametrize("conflict", ["refuse", "skip", "replace"])
def test_a_dry_run_says_what_the_import_does_then_and_changes_nothing(
    world: World, conflict: str
) -> None:
    rng = random.Random(conflict)
    file = "/plants.csv?on-conflict=" + conflict

    def rows(many: int) -> bytes:
        plants = [NewPlant(rng.randrange(600), rng.choice("ab")) for _ in range(many)]
        return b"".join(
            [b"id,name\n", FORMATS["csv"].render(plants).replace(b",\r", b"\r"), b"x,y\n"]
        )

    for many in (900, 0, 1, 1_200):
        body, before = rows(many), world.store.plants
        last = world.get("/changes?after=now").headers["Changes-After"]
        told = len(world.told(Imported))

        tried = world.send("POST", f"{file}&dry-run=true", body, fields=CSV)

        assert world.store.plants == before
        assert world.get("/changes?after=now").headers["Changes-After"] == last
        assert len(world.told(Imported)) == told
        made = world.send("POST", file, body, fields=CSV)
        assert (tried.status_code, tried.json()) == (200, {**made.json(), "dry_run": True})


def test_a_dry_run_is_answered_while_the_writer_waits_for_the_disk() -> None:
    store = GatedStore()

    async def try_beside_a_create() -> tuple[int, int]:
        create = asyncio.ensure_future(world.sending("POST", "/plants", VALID))
        await asyncio.to_thread(store.entered.acquire)
        path = "/plants.ndjson?dry-run"
        tried = await world.sending("POST", path, lines(1, 2), fields=NDJSON)
        store.let_go.release()
        return tried.json()["stored"], (await create).status_code

    with World(store) as world:
        assert world.run(try_beside_a_create()) == (2, 200)


@pytest.mark.parametrize(("others", "remembered"), [(0, 1), (31, 0)])
def test_imports_share_the_memory_of_dry_runs(world: World, others: int, remembered: int) -> None:
    for number in range(others):
        world.parts.imports.limit.acquire(f"{number}")
    rows = lines(1, 5_000) + lines(1, 1)

    answer = world.send("POST", "/plants.ndjson?dry-run=true", rows, fields=NDJSON)

    assert answer.json()["already_stored"] == remembered


def test_a_dry_run_that_cannot_read_the_plants_is_503_and_says_that_nothing_is_stored() -> None:
    class Failing(MemoryStore):
        def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
            if any(id_ > BATCH_ROWS_MAX for id_ in ids):
                raise StoreUnavailableError("The database cannot be read")
            return super().find_plants(ids)

    with World(Failing()) as world:
        path, rows = "/plants.ndjson?dry-run=true", lines(1, BATCH_ROWS_MAX + 1)
        answer = world.send("POST", path, rows, fields=NDJSON)

    assert (answer.status_code, answer.json()["lines_stored_through"]) == (503, 0)
    assert answer.json()["message"] == "The database cannot be read"
