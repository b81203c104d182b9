"""The group read, with stores that block or fail."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from plantstore.commit.reader import GroupRead
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.listings import Listing, Page, PlantsPage
from plantstore.observe import Event, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import READS
from support.fake_store import FakeStore

EVERYTHING = Listing(after=None, limit=10, tag=None)


class WatchedStore(FakeStore):
    """Has plants 0 to 9, blocks each read until the test releases it, and can fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()
        self.plants = {id_: NewPlant(id_, str(id_)) for id_ in range(10)}
        self.failure = failure
        self.asked: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)
        self.listing_entered = threading.Semaphore(0)
        self.let_listing_go = threading.Semaphore(0)

    def list_plants(self, listing: Listing) -> PlantsPage:
        self.listing_entered.release()
        self.let_listing_go.acquire()
        return super().list_plants(listing)

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        self.asked.append(list(ids))
        self.entered.release()
        self.let_go.acquire()
        if self.failure is not None and 7 in ids:
            raise self.failure
        return super().find_plants(ids)


def run(
    store: WatchedStore,
    test: Callable[[GroupRead], Coroutine[Any, Any, None]],
    *,
    waiting_max: int = 1000,
) -> list[Event]:
    events: list[Event] = []
    reader = GroupRead(store, waiting_max=waiting_max, observe=events.append)

    async def main() -> None:
        async with reader.running():
            try:
                await test(reader)
            finally:
                store.let_go.release(1000)
                store.let_listing_go.release(1000)
        with pytest.raises(StoreUnavailableError):
            await reader.find_plant(1)

    asyncio.run(asyncio.wait_for(main(), 30))
    return events


def test_waiting_look_ups_are_joined_into_one_query_up_to_a_limit() -> None:
    store = WatchedStore()
    last = READS["find"].batch_max + 3

    async def test(reader: GroupRead) -> None:
        first = asyncio.create_task(reader.find_plant(1))
        await asyncio.to_thread(store.entered.acquire)
        finds = [asyncio.create_task(reader.find_plant(id_)) for id_ in range(2, last + 1)]
        await asyncio.sleep(0)  # they run up to their await
        store.let_go.release(1000)
        assert await first == NewPlant(1, "1")
        assert [one and one.id for one in await asyncio.gather(*finds)] == [
            *range(2, 10),
            *[None] * (last - 9),
        ]

    run(store, test)

    assert store.asked == [[1], [*range(2, last - 1)], [last - 1, last]]


def test_look_ups_and_listings_do_not_wait_for_each_other() -> None:
    store = WatchedStore()

    async def test(reader: GroupRead) -> None:
        listings = [asyncio.create_task(reader.list_plants(EVERYTHING)) for _ in range(3)]
        await asyncio.to_thread(store.listing_entered.acquire)
        store.let_go.release()
        assert await reader.find_plant(1) == NewPlant(1, "1")
        find = asyncio.create_task(reader.find_plant(2))
        await asyncio.to_thread(store.entered.acquire)
        await asyncio.to_thread(store.entered.acquire)
        store.let_listing_go.release(1000)
        assert (
            await asyncio.gather(*listings)
            == [Page(list(store.plants.values()), None, is_last=True)] * 3
        )
        assert not find.done()
        store.let_go.release()
        assert await find == NewPlant(2, "2")

    run(store, test)


def test_several_searches_and_another_listing_are_read_at_once() -> None:
    store = WatchedStore()

    async def test(reader: GroupRead) -> None:
        asked = [Listing(words=("a",)), Listing(words=("a",)), EVERYTHING]
        pages = [asyncio.create_task(reader.list_plants(listing)) for listing in asked]
        are_read = [
            await asyncio.to_thread(store.listing_entered.acquire, timeout=5) for _ in pages
        ]
        store.let_listing_go.release(3)
        await asyncio.gather(*pages)
        assert all(are_read)

    run(store, test)


def test_a_queue_of_one_read_accepts_a_search() -> None:
    store = WatchedStore()
    store.let_listing_go.release()

    async def test(reader: GroupRead) -> None:
        assert (await reader.list_plants(Listing(words=("1",)))).items == [NewPlant(1, "1")]

    run(store, test, waiting_max=1)


def test_each_batch_of_listings_is_answered_before_the_next_batch_is_read() -> None:
    store = WatchedStore()

    async def test(reader: GroupRead) -> None:
        batch_max = READS["list"].batch_max
        number = 2 * batch_max
        listings = [asyncio.create_task(reader.list_plants(EVERYTHING)) for _ in range(number)]
        for done in range(1, number + 1):
            await asyncio.to_thread(store.listing_entered.acquire)
            assert sum(each.done() for each in listings) <= done
            store.let_listing_go.release()
            if done % batch_max == 0:
                await asyncio.wait(listings[:done], timeout=10)
                assert sum(each.done() for each in listings) == done

    run(store, test)


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (MemoryError(), ErrorCode.OVERLOADED),
        (StoreUnavailableError("disk I/O error"), ErrorCode.STORE_UNAVAILABLE),
        (ZeroDivisionError(), ErrorCode.INTERNAL),
    ],
)
def test_a_failed_read_has_the_error_of_its_cause_and_is_reported(
    failure: Exception, code: ErrorCode
) -> None:
    store = WatchedStore(failure)
    store.let_go.release(1000)

    async def test(reader: GroupRead) -> None:
        with pytest.raises(RequestError) as failed:
            await reader.find_plant(7)
        assert failed.value.code is code

    assert run(store, test) == [ReadFailed(failure, reads=1)]
