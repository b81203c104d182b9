"""The end of the feed: which followers it serves, and which have to ask the store."""

import asyncio

from plantstore.commit.tail import Tail
from plantstore.errors import StoreUnavailableError
from plantstore.feed import ChangesPage
from plantstore.observe import Event, ReadFailed, ignore
from plantstore.plants import NewPlant
from support.fake_store import FakeStore


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
            tail.leave()
            return [unknown, *found, tail.events_after(begin), tail.events_after(last)]

    unknown, both, one, none, *others = asyncio.run(follow())

    last = store.read_changes(None, 1).end
    assert both is not None
    assert one is not None
    assert (both[0].count(b"event: created"), both[1]) == (2, last)
    assert (one[0].count(b"event: created"), one[1]) == (1, last)
    assert none == (b"", last)
    assert [unknown, *others] == [None] * 6


class Faulty(FakeStore):
    """Fails its second read of changes."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        self.reads += 1
        if self.reads == 2:
            raise StoreUnavailableError("The plants cannot be read")
        return super().read_changes(after, limit)


def test_followers_get_the_changes_that_were_made_during_a_fault_of_the_store() -> None:
    store = Faulty()
    store.keep_changes(7)
    events: list[Event] = []

    async def follow() -> tuple[bytes, int] | None:
        tail = Tail(store, observe=events.append)
        async with tail.running():
            tail.join()
            while tail.events_after(0) is None:
                await tail.news
            store.apply_changes([NewPlant(1, "a"), NewPlant(2, "b")])
            while (found := tail.events_after(0)) == (b"", 0):
                await tail.news
            return found

    found = asyncio.run(asyncio.wait_for(follow(), 20))

    assert found is not None
    assert found[0].count(b"event: created") == 2
    assert [type(event) for event in events] == [ReadFailed]
