"""The end of the feed: each follower gets each change once, in order, or it ends."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeVar

from plantstore.changes import Deletion
from plantstore.commit.tail import EVENTS_BYTES_MAX, SENT_BYTES_MAX, Tail, first_of
from plantstore.errors import ErrorCode, FeedError, StoreUnavailableError
from plantstore.observe import Event, Observer, ReadFailed, ignore
from plantstore.plants import NewPlant
from plantstore.store import Store
from plantstore.threads import Threads
from support.stores import MemoryStore, WatchedStore

ResultT = TypeVar("ResultT")
Found = tuple[bytes, int] | None


class Restless(Threads):
    """Threads that sleep for no time."""

    def sleep(self, seconds: float) -> None:
        pass


def follow(
    store: Store, test: Callable[[Tail], Awaitable[ResultT]], observe: Observer = ignore
) -> ResultT:
    """Return the result of a test with a tail, which runs on the feed of a store."""
    store.keep_changes(7)
    tail = Tail(store, observe=observe, threads=Restless())

    async def run() -> ResultT:
        async with tail.running():
            return await test(tail)

    return asyncio.run(asyncio.wait_for(run(), 60))


def last_number(store: Store) -> int:
    return store.read_changes(None, 1).end


class Stepped(MemoryStore):
    """A store whose changes are waited for until the test lets the thread go on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting, self.may_continue = threading.Semaphore(0), threading.Semaphore(0)
        self.is_unwatched = threading.Event()

    @contextlib.contextmanager
    def watch_changes(self) -> Iterator[Callable[[float], bool]]:
        def wait(_: float) -> bool:
            self.is_waiting.release()
            return self.may_continue.acquire()

        yield wait
        self.is_unwatched.set()


def test_only_followers_whose_number_is_known_get_events() -> None:
    """A number between two known ones, or after the last one, may be of a history that was lost."""
    store = MemoryStore()
    store.keep_changes(7)
    store.apply_changes([NewPlant(1, "a")])
    begin = last_number(store)

    async def test(tail: Tail) -> list[Found]:
        unknown = tail.events_after(begin)
        tail.add_follower()
        while tail.events_after(begin) is None:
            await tail.news
        store.apply_changes([NewPlant(2, "b"), NewPlant(3, "c")])
        while tail.events_after(begin) == (b"", begin):
            await tail.news
        first, last = (change.number for change in store.read_changes(begin, 9).items)
        numbers = (begin, first, last, begin - 1, last + 1)
        found = [tail.events_after(number) for number in numbers]
        found.append(tail.events_after(begin + 1) if begin + 1 < first else None)
        tail.end()  # a follower that comes now follows another feed
        found += [tail.events_after(number) for number in (begin, first, last)]
        tail.remove_follower()
        return [unknown, *found]

    unknown, both, one, none, *others = follow(store, test)

    last = last_number(store)
    assert both is not None
    assert one is not None
    assert (both[0].count(b"event: created"), both[1]) == (2, last)
    assert (one[0].count(b"event: created"), one[1]) == (1, last)
    assert none == (b"", last)
    assert [unknown, *others] == [None] * 7


def test_a_follower_gets_whole_events_up_to_a_size_but_at_least_one() -> None:
    half, large = b"x" * (SENT_BYTES_MAX // 2), b"x" * (SENT_BYTES_MAX + 1)

    pieces = [
        first_of([(1, half), (2, half), (3, b"x")], 0),
        first_of([(1, b"x"), (2, large)], 0),
        first_of([(1, large), (2, b"x")], 0),
        first_of([], 7),
    ]

    assert pieces == [(half + half, 2), (b"x", 1), (large, 1), (b"", 7)]


def test_only_the_last_events_are_kept() -> None:
    store = MemoryStore()
    plants = [NewPlant(id_, "x" * (EVENTS_BYTES_MAX // 20)) for id_ in range(10)]

    async def test(tail: Tail) -> Found:
        begin = last_number(store)
        tail.add_follower()
        for _ in range(3):
            store.apply_changes(plants)
            store.apply_changes([Deletion(plant.id) for plant in plants])
            while tail.events_after(last_number(store)) is None:
                await tail.news
        return tail.events_after(begin)

    assert follow(store, test) is None


def test_a_follower_gets_a_change_of_which_the_thread_is_told_nothing() -> None:
    class Silent(MemoryStore):
        @contextlib.contextmanager
        def watch_changes(self) -> Iterator[Callable[[float], bool]]:
            yield lambda _: False

    store = Silent()

    async def test(tail: Tail) -> Found:
        begin = last_number(store)
        tail.add_follower()
        while tail.events_after(begin) is None:
            await tail.news
        store.apply_changes([NewPlant(1, "a")])
        while (found := tail.events_after(begin)) == (b"", begin):
            await tail.news
        return found

    found = follow(store, test)

    assert found is not None
    assert found[0].count(b"event: created") == 1


def test_after_a_number_was_refused_the_thread_follows_from_the_present() -> None:
    store = WatchedStore(MemoryStore())

    def refuse(refused: int, after: int | None, _limit: int) -> None:
        """Refuse a number of before, as after a restore from a backup."""
        if after == refused:
            raise FeedError(ErrorCode.CHANGES_GONE, "The changes are gone")

    async def test(tail: Tail) -> int:
        begin = last_number(store)
        tail.add_follower()
        while tail.events_after(begin) is None:
            await tail.news
        store.before["read_changes"] = partial(refuse, begin)
        store.apply_changes([NewPlant(1, "a")])
        while tail.generation < 2 and tail.events_after(last_number(store)) is None:
            await tail.news
        return tail.generation

    assert follow(store, test) == 1


def test_followers_get_the_changes_that_were_made_during_a_fault_of_the_first_wait() -> None:
    events: list[Event] = []

    class Faulty(MemoryStore):
        faults = 1

        @contextlib.contextmanager
        def watch_changes(self) -> Iterator[Callable[[float], bool]]:
            def fail(_: float) -> bool:
                self.faults -= 1
                self.apply_changes([NewPlant(1, "a"), NewPlant(2, "b")])
                raise StoreUnavailableError("The connection was lost")

            with super().watch_changes() as wait:
                yield fail if self.faults else wait

    async def test(tail: Tail) -> Found:
        tail.add_follower()
        while (found := tail.events_after(0)) in (None, (b"", 0)):
            await tail.news
        return found

    found = follow(Faulty(), test, observe=events.append)

    assert found is not None
    assert found[0].count(b"event: created") == 2
    assert [type(event) for event in events] == [ReadFailed]


def test_events_that_do_not_follow_those_that_are_kept_are_not_added_to_them() -> None:
    """The last follower leaves and another one comes, while the event loop has a page to add."""
    store = Stepped()

    async def test(tail: Tail) -> Found:
        tail.add_follower()
        store.is_waiting.acquire()
        store.apply_changes([NewPlant(1, "a")])
        store.may_continue.release()
        store.is_waiting.acquire()  # the page is to be added, and the thread waits again
        tail.remove_follower()
        store.may_continue.release()
        store.is_unwatched.wait()  # the thread forgets its number
        store.apply_changes([NewPlant(2, "b")])
        tail.add_follower()
        store.is_waiting.acquire()
        store.apply_changes([NewPlant(3, "c")])
        store.may_continue.release()
        while tail.events_after(last_number(store)) is None:
            await tail.news
        store.may_continue.release()
        return tail.events_after(0)

    assert follow(store, test) is None


def test_followers_are_woken_without_news_to_look_at_what_else_may_end_them() -> None:
    async def test(tail: Tail) -> bool:
        tail.add_follower()
        await tail.news  # of the beginning
        done, _ = await asyncio.wait([tail.news], timeout=30)
        return bool(done)

    assert follow(MemoryStore(), test)


def test_the_end_of_a_feed_wakes_its_followers() -> None:
    async def test(tail: Tail) -> bool:
        news = tail.news
        tail.end()
        return news.done()

    assert follow(MemoryStore(), test)
