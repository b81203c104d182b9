"""The end of the feed: each follower gets each change once, in order, or it ends."""

import asyncio
import contextlib
import random
import re
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from plantstore.commit.tail import SENT_BYTES_MAX, Tail, first_of
from plantstore.errors import FeedError, StoreUnavailableError
from plantstore.feed import ChangesPage
from plantstore.observe import Event, ReadFailed, ignore
from plantstore.plants import NewPlant
from plantstore.threads import Threads
from support.fake_store import FakeStore

SCENARIOS = 150

# Calls of the store in a scenario; and after it, until all followers have all changes.
CALLS = 60
LAST_CALLS_MAX = 500


class Restless(Threads):
    """Threads that sleep for no time."""

    def sleep(self, seconds: float) -> None:
        pass


def numbers_of(events: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"^id: (\d+)$", events, re.MULTILINE)]


def test_only_followers_whose_number_is_known_get_events() -> None:
    """A number between two known ones, or after the last one, may be of a history that was lost."""
    store = FakeStore()
    store.keep_changes(7)
    store.apply_changes([NewPlant(1, "a")])
    begin = store.read_changes(None, 1).end

    async def follow() -> list[tuple[bytes, int] | None]:
        tail = Tail(store, observe=ignore)
        async with tail.running():
            unknown = tail.events_after(begin)
            tail.join()
            while tail.events_after(begin) is None:
                await tail.news
            store.apply_changes([NewPlant(2, "b"), NewPlant(3, "c")])
            while tail.events_after(begin) == (b"", begin):
                await tail.news
            first, last = (change.number for change in store.read_changes(begin, 9).changes)
            numbers = (begin, first, last, begin - 1, last + 1)
            found = [tail.events_after(number) for number in numbers]
            found.append(tail.events_after(begin + 1) if begin + 1 < first else None)
            tail.end()  # a follower that comes now follows another feed
            found += [tail.events_after(number) for number in (begin, first, last)]
            tail.leave()
            return [unknown, *found]

    unknown, both, one, none, *others = asyncio.run(follow())

    last = store.read_changes(None, 1).end
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


class Follower:
    """Follows the tail as a stream does, one step at a time."""

    def __init__(self, tail: Tail, store: FakeStore, after: int) -> None:
        self._tail = tail
        self._store = store
        self._era = tail.era
        self.number = after
        self.numbers: list[int] = []
        self.is_over = False
        tail.join()

    def step(self) -> None:
        """Get the events that are there, or end."""
        if self.is_over:
            return
        if self._era != self._tail.era:
            self.leave()
        elif (found := self._tail.events_after(self.number)) is not None:
            self.numbers += numbers_of(found[0])
            self.number = found[1]
        else:
            try:
                page = FakeStore.read_changes(self._store, self.number, 2)
            except FeedError:
                self.leave()
            else:
                self.numbers += [change.number for change in page.changes]
                self.number = page.end

    def leave(self) -> None:
        self.is_over = True
        self._tail.leave()


class Played(FakeStore):
    """Plays a step of a scenario during each call of the thread, which may fail.

    The step runs on the event loop, while the thread waits. So a scenario is the same each time.

    Attributes:
        play: is called during a read after it has its page, and during a wait.

    """

    def __init__(self) -> None:
        super().__init__()
        self.play: Callable[[], None]
        self.loop: asyncio.AbstractEventLoop

    def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        page = super().read_changes(after, min(limit, 3))
        self._play()
        return page

    @contextlib.contextmanager
    def watch_changes(self) -> Iterator[Callable[[float], bool]]:
        def wait(_: float) -> bool:
            self._play()
            return True

        yield wait

    def _play(self) -> None:
        async def play() -> None:
            self.play()

        asyncio.run_coroutine_threadsafe(play(), self.loop).result()

    def numbers_after(self, number: int) -> list[int]:
        return [each.number for each in super().read_changes(number, 10_000).changes]

    def lose(self, count: int) -> None:
        """Lose the last changes, as a failover may."""
        last = self._last
        self._changes = self._changes[: len(self._changes) - count]
        self._last = self._changes[-1].number if self._changes else self._kept_after
        self.plants.clear()
        while time.time_ns() // 1000 <= last:  # a later change has a greater number
            pass


class Scenario:
    """Random changes, faults, failovers and followers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.store = Played()
        self.store.keep_changes(7)
        self.tail = Tail(self.store, observe=ignore, threads=Restless())
        self.followers: list[tuple[int, Follower]] = []
        self.fault_rate = self.random.choice([0, 0.1, 0.3])
        self.loss_rate = self.random.choice([0, 0.1])
        self.calls = self.plants = 0
        self.is_settled = asyncio.Event()

    async def run(self) -> None:
        self.store.loop = asyncio.get_running_loop()
        self.store.play = self.play
        async with self.tail.running():
            self.change(1)
            self.follow()
            await self.is_settled.wait()
            self.store.play = lambda: None

    def play(self) -> None:
        self.calls += 1
        if self.calls > CALLS:
            self.settle()
        else:
            for _ in range(self.random.randrange(4)):
                self.act()
            if not any(not follower.is_over for _, follower in self.followers):
                self.follow()  # otherwise the thread would not call again
            if self.random.random() < self.fault_rate:
                raise StoreUnavailableError("The plants cannot be read")

    def act(self) -> None:
        _, follower = self.random.choice(self.followers)
        action = self.random.random()
        if action < 0.3:
            self.change(self.random.choice([1, 1, 2, 9]))
        elif action < 0.4:
            self.follow()
        elif action < 0.45 and not follower.is_over:
            follower.leave()
        elif action < 0.45 + self.loss_rate:
            self.store.lose(self.random.randrange(4))
        else:
            follower.step()

    def change(self, count: int) -> None:
        self.store.apply_changes([NewPlant(self.plants + i, "a") for i in range(count)])
        self.plants += count

    def follow(self) -> None:
        begin = self.random.choice([0, *self.store.numbers_after(0)[-5:]])
        self.followers.append((begin, Follower(self.tail, self.store, begin)))

    def settle(self) -> None:
        """Let all followers continue without faults until each one has the last change."""
        if self.calls == CALLS + 1:
            self.change(1)
        for _, follower in self.followers:
            follower.step()
        [*_, last] = self.store.numbers_after(0)
        is_late = self.calls > CALLS + LAST_CALLS_MAX
        if is_late or all(each.is_over or each.number == last for _, each in self.followers):
            self.is_settled.set()


@pytest.mark.parametrize("first", range(0, SCENARIOS, 50))
def test_a_follower_has_each_change_once_or_ends_whatever_fails_and_whatever_is_lost(
    first: int,
) -> None:
    """A read or a wait fails, a failover loses changes, and followers come and leave."""
    for seed in range(first, first + 50):
        scenario = Scenario(seed)

        asyncio.run(asyncio.wait_for(scenario.run(), 60))

        for begin, follower in scenario.followers:
            assert follower.numbers == sorted(set(follower.numbers)), seed
            if not follower.is_over:
                assert follower.numbers == scenario.store.numbers_after(begin), seed


def test_followers_get_the_changes_that_were_made_during_a_fault_of_the_first_wait() -> None:
    events: list[Event] = []

    class Faulty(FakeStore):
        faults = 1

        @contextlib.contextmanager
        def watch_changes(self) -> Iterator[Callable[[float], bool]]:
            def fail(_: float) -> bool:
                self.faults -= 1
                self.apply_changes([NewPlant(1, "a"), NewPlant(2, "b")])
                raise StoreUnavailableError("The connection was lost")

            with super().watch_changes() as wait:
                yield fail if self.faults else wait

    async def follow() -> tuple[bytes, int] | None:
        store = Faulty()
        store.keep_changes(7)
        tail = Tail(store, observe=events.append, threads=Restless())
        async with tail.running():
            tail.join()
            while (found := tail.events_after(0)) in (None, (b"", 0)):
                await tail.news
            return found

    found = asyncio.run(asyncio.wait_for(follow(), 20))

    assert found is not None
    assert found[0].count(b"event: created") == 2
    assert [type(event) for event in events] == [ReadFailed]


def test_events_that_do_not_follow_those_that_are_kept_are_not_added_to_them() -> None:
    """The last follower leaves and another one comes, while the event loop has a page to add."""
    is_waiting, may_continue = threading.Semaphore(0), threading.Semaphore(0)
    is_unwatched = threading.Event()

    class Stepped(FakeStore):
        @contextlib.contextmanager
        def watch_changes(self) -> Iterator[Callable[[float], bool]]:
            def wait(_: float) -> bool:
                is_waiting.release()
                return may_continue.acquire()

            yield wait
            is_unwatched.set()

    store = Stepped()
    store.keep_changes(7)
    tail = Tail(store, observe=ignore)

    async def follow() -> tuple[bytes, int] | None:
        async with tail.running():
            tail.join()
            is_waiting.acquire()
            store.apply_changes([NewPlant(1, "a")])
            may_continue.release()
            is_waiting.acquire()  # the page is to be added, and the thread waits again
            tail.leave()
            may_continue.release()
            is_unwatched.wait()  # the thread forgets its number
            store.apply_changes([NewPlant(2, "b")])
            tail.join()
            is_waiting.acquire()
            store.apply_changes([NewPlant(3, "c")])
            last = store.read_changes(None, 1).end
            may_continue.release()
            while tail.events_after(last) is None:
                await tail.news
            may_continue.release()
            return tail.events_after(0)

    assert asyncio.run(asyncio.wait_for(follow(), 60)) is None


def test_a_stop_ends_though_the_last_follower_leaves_while_the_store_hangs() -> None:
    reading, released = threading.Event(), threading.Event()

    class Hanging(FakeStore):
        def read_changes(self, after: int | None, limit: int) -> ChangesPage:
            reading.set()
            released.wait()
            return super().read_changes(after, limit)

    async def stop() -> None:
        store = Hanging()
        store.keep_changes(7)
        tail = Tail(store, observe=ignore)
        may_stop, is_over = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            async with tail.running():
                tail.join()
                await may_stop.wait()
            is_over.set()

        task = asyncio.create_task(run())
        await asyncio.to_thread(reading.wait)
        may_stop.set()
        while not tail.era:
            await tail.news
        tail.leave()
        released.set()
        try:
            await asyncio.wait_for(is_over.wait(), 20)
        finally:
            tail.join()  # a thread that waits for a follower would keep this test from its end
            await task

    asyncio.run(stop())

    assert not [thread for thread in threading.enumerate() if thread.name == "feed"]
