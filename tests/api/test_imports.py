"""Imports in the test's process."""

import asyncio
from collections.abc import Sequence

import pytest

from plantstore.api.auth import ConcurrencyLimit
from plantstore.api.file_imports import SHARED_BATCH_ROWS_MAX
from plantstore.changes import Change, Result
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.errors import ErrorCode, StoreUnreachableError
from plantstore.observe import Imported
from support.fake_store import FakeStore, GatedStore
from support.streams import lines
from support.world import VALID, World, until

NDJSON = {"Content-Type": "application/x-ndjson"}


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
    class Failing(FakeStore):
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
    world.parts.imports._limit = ConcurrencyLimit(0, "imports")  # noqa: SLF001

    answer = world.send("POST", "/plants.ndjson", lines(1, 1), fields=NDJSON)

    assert (answer.status_code, answer.json()["error"]) == (503, ErrorCode.OVERLOADED)
    assert not world.store.plants
