"""Imports in the test's process."""

import asyncio

from plantstore.observe import Imported
from support.fake_store import GatedStore
from support.world import World


def test_an_import_that_is_cancelled_twice_keeps_its_place_until_its_batch_is_settled() -> None:
    store = GatedStore()
    rows = b'{"id":1,"name":"a"}\n{"id":2,"name":"b"}\n'
    fields = {"Content-Type": "application/x-ndjson"}

    async def cancel_twice() -> tuple[int, int]:
        others = asyncio.all_tasks()
        sending = world.sending("POST", "/plants.ndjson", rows, fields=fields)
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
