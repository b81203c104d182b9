"""The group read, with stores that block or fail."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from plantstore.commit.reader import FairQueue, GroupRead
from plantstore.errors import (
    ClientGoneError,
    ErrorCode,
    QueueFullError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.listings import Listing, Page
from plantstore.messages import Request
from plantstore.observe import Event, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import READS
from support.stores import Gate, MemoryStore, WatchedStore

EVERYTHING = Listing(after=None, limit=10, tag=None)


class Blocked(WatchedStore):
    """Has plants 0 to 9. Look-ups and listings wait until the test lets them go on."""

    def __init__(self) -> None:
        store = MemoryStore()
        store.apply_changes([NewPlant(id_, str(id_)) for id_ in range(10)])
        super().__init__(store)
        self.finding, self.listing = Gate(), Gate()
        self.before = {"find_plants": self.finding, "list_plants": self.listing}


def run(
    store: Blocked,
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
                store.finding.let_go.release(1000)
                store.listing.let_go.release(1000)
        with pytest.raises(StoreUnavailableError):
            await reader.find_plant(1)

    asyncio.run(asyncio.wait_for(main(), 30))
    return events


def test_waiting_lookups_are_joined_into_one_query_up_to_a_limit() -> None:
    store = Blocked()
    last = READS["find_plants"].batch_max + 3

    async def test(reader: GroupRead) -> None:
        first = asyncio.create_task(reader.find_plant(1))
        await asyncio.to_thread(store.finding.entered.acquire)
        finds = [asyncio.create_task(reader.find_plant(id_)) for id_ in range(2, last + 1)]
        await asyncio.sleep(0)  # they run up to their await
        store.finding.let_go.release(1000)
        assert await first == NewPlant(1, "1")
        assert [one and one.id for one in await asyncio.gather(*finds)] == [
            *range(2, 10),
            *[None] * (last - 9),
        ]

    run(store, test)

    asked = [list(ids) for [ids] in store.finding.asked]
    assert asked == [[1], [*range(2, last - 1)], [last - 1, last]]


def test_lookups_and_listings_do_not_wait_for_each_other() -> None:
    store = Blocked()

    async def test(reader: GroupRead) -> None:
        listings = [asyncio.create_task(reader.list_plants(EVERYTHING)) for _ in range(3)]
        await asyncio.to_thread(store.listing.entered.acquire)
        store.finding.let_go.release()
        assert await reader.find_plant(1) == NewPlant(1, "1")
        find = asyncio.create_task(reader.find_plant(2))
        await asyncio.to_thread(store.finding.entered.acquire)
        await asyncio.to_thread(store.finding.entered.acquire)
        store.listing.let_go.release(1000)
        assert (
            await asyncio.gather(*listings)
            == [Page(list(store.plants.values()), None, is_last=True)] * 3
        )
        assert not find.done()
        store.finding.let_go.release()
        assert await find == NewPlant(2, "2")

    run(store, test)


def client(token: str, left: list[bool] | None = None) -> Request:
    """Return a request with a token, whose client leaves when the list is filled."""
    return Request("GET", "/plants", token=token, is_client_gone=lambda: bool(left))


def search(word: str) -> Listing:
    return Listing(words=(word,))


def test_a_read_whose_client_has_left_is_dropped_before_it_is_made() -> None:
    store = Blocked()
    threads = READS["search"].threads

    async def test(reader: GroupRead) -> None:
        stayed, has_left = client("a"), list[bool]()
        left = client("a", has_left)
        first = [
            asyncio.create_task(reader.list_plants(search(f"{number}"), stayed))
            for number in range(threads)
        ]
        await asyncio.sleep(0)
        dropped = [asyncio.create_task(reader.list_plants(search("x"), left)) for _ in range(500)]
        cancelled = asyncio.create_task(reader.list_plants(search("y"), stayed))
        last = asyncio.create_task(reader.list_plants(search("z"), stayed))
        await asyncio.sleep(0)
        assert reader.waiting == threads + 502
        has_left.append(True)
        cancelled.cancel()
        store.listing.let_go.release(threads + 1)
        await asyncio.gather(*first, last)
        results = await asyncio.gather(*dropped, return_exceptions=True)
        assert {type(result) for result in results} == {ClientGoneError}
        assert reader.waiting == 0

    run(store, test)

    words = {listing.words[0] for [listing] in store.listing.asked}
    assert words == {"0", "1", "z"}


def test_each_token_reads_in_turn_and_clients_without_one_share_a_turn() -> None:
    store = Blocked()
    threads = READS["search"].threads

    async def test(reader: GroupRead) -> None:
        begun = [asyncio.create_task(reader.list_plants(search("begun"))) for _ in range(threads)]
        await asyncio.sleep(0)
        pages = []
        for token, many in (("", 6), ("", 6), ("a", 2), ("b", 1)):
            pages += [
                asyncio.create_task(reader.list_plants(search(token or "-"), client(token)))
                for _ in range(many)
            ]
        await asyncio.sleep(0)
        for _ in range(threads):
            await asyncio.to_thread(store.listing.entered.acquire)
        for _ in pages:  # one at a time, so that they are asked in order
            store.listing.let_go.release()
            await asyncio.to_thread(store.listing.entered.acquire)
        store.listing.let_go.release(threads)
        await asyncio.gather(*begun, *pages)

    run(store, test)

    words = [listing.words[0] for [listing] in store.listing.asked[threads:]]
    assert sorted(words[:6]) == ["-", "-", "-", "a", "a", "b"]


def test_one_owner_leaves_places_in_the_queue_to_others() -> None:
    store = Blocked()

    async def test(reader: GroupRead) -> None:
        pages = [
            asyncio.create_task(reader.list_plants(search("x"), client(""))) for _ in range(10)
        ]
        await asyncio.sleep(0)
        other = asyncio.create_task(reader.list_plants(search("y"), client("a")))
        await asyncio.sleep(0)
        store.listing.let_go.release(20)
        results = await asyncio.gather(*pages, return_exceptions=True)
        refused = [result for result in results if isinstance(result, RequestError)]
        assert [error.code for error in refused] == [ErrorCode.OVERLOADED] * 5
        await other

    run(store, test, waiting_max=4)


def test_a_turn_whose_task_is_cancelled_goes_to_the_next() -> None:
    async def test() -> None:
        queue = FairQueue(running_max=1, waiting_max=10)
        await queue.acquire(None)
        waiting = asyncio.create_task(queue.acquire(client("a")))
        await asyncio.sleep(0)
        queue.release()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await queue.acquire(client("b"))

    asyncio.run(asyncio.wait_for(test(), 5))


def test_a_caller_that_has_left_and_is_cancelled_gives_no_place_to_another() -> None:
    async def test() -> None:
        queue = FairQueue(running_max=1, waiting_max=10)
        await queue.acquire(None)
        has_left = list[bool]()
        waiting = asyncio.create_task(queue.acquire(client("a", has_left)))
        next_one = asyncio.create_task(queue.acquire(client("b")))
        after = asyncio.create_task(queue.acquire(client("c")))
        await asyncio.sleep(0)
        has_left.append(True)
        queue.release()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await next_one
        assert queue.waiting == 1
        after.cancel()

    asyncio.run(asyncio.wait_for(test(), 5))


def test_callers_that_have_left_leave_their_places_to_others() -> None:
    async def test(waiting: str) -> None:
        queue = FairQueue(running_max=1, waiting_max=4)
        await queue.acquire(None)
        has_left = list[bool]()
        left = [asyncio.create_task(queue.acquire(client("a", has_left))) for _ in range(3)]
        others = [asyncio.create_task(queue.acquire(client("b")))]
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            await queue.acquire(client(waiting))
        has_left.append(True)
        others.append(asyncio.create_task(queue.acquire(client(waiting))))
        results = await asyncio.gather(*left, return_exceptions=True)
        assert {type(result) for result in results} == {ClientGoneError}
        for _ in others:
            queue.release()
        await asyncio.gather(*others)
        assert queue.waiting == 0

    for waiting in ("a", "c"):  # the queue of the token is full, or that of all
        asyncio.run(asyncio.wait_for(test(waiting), 5))


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
    store = Blocked()
    store.fail(failure, "find_plants")

    async def test(reader: GroupRead) -> None:
        with pytest.raises(RequestError) as failed:
            await reader.find_plant(7)
        assert failed.value.code is code

    assert run(store, test) == [ReadFailed(failure, reads=1)]
