"""The end of the feed, which is read once for all followers of a process.

Theory of operation
-------------------
While there are followers, a thread waits for changes (`PlantStore.watch_changes`), reads those that
are new, renders them as events, and hands them to the event loop:

    thread: wait, read, render --events--> event loop: keep the events, wake the followers

The event loop keeps the last events. A follower that has read up to a number gets all events after
it. So a change costs one read and one rendering, however many followers there are. A follower that
is further behind reads pages of the store by itself, until it has caught up.

All followers await one future. So a follower costs no timer, no thread and little memory. They
also wake at an interval, to check whether their token or their client is gone.

Rule 1: the thread keeps the number of the last change that it has handed over. After a fault of a
    read or of a wait, it continues after this number.
Rule 2: the event loop keeps an unbroken sequence of changes. If a page does not follow the last
    event, the sequence begins again with this page.
Rule 3: a follower gets events only if the sequence has its number. Otherwise it reads the store,
    which has all changes after this number, or refuses it: then the follower ends.

So each follower gets every change once, in order, or it ends. This also holds if a failover loses
changes: a later history hardly ever has the number of a lost change.
"""

import asyncio
import contextlib
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import islice
from operator import itemgetter
from typing import Final, TypeAlias

from plantstore.commit.batcher import SharedFuture
from plantstore.errors import FeedError
from plantstore.feed import ChangesPage, render_event
from plantstore.observe import Observer, ReadFailed
from plantstore.store import PlantStore
from plantstore.threads import THREADS, Threads

# Changes that are read at once.
PAGE_CHANGES_MAX: Final = 1_000

# Bytes of the events that are kept, besides those of one page. A follower that is further behind
# has to read the store.
EVENTS_BYTES_MAX: Final = 1024 * 1024

# Bytes of events that a follower gets at once, unless one event has more. The server may have to
# keep them until the client has read them.
SENT_BYTES_MAX: Final = 128 * 1024

# How often followers are woken without news. With the time for which a token is cached, a stream
# ends within two seconds after its token was revoked. To wake a follower takes some microseconds.
WAKE_SECONDS: Final = 0.5

# How long the thread waits at once. It is also how long it takes to notice that it must end.
WAIT_SECONDS: Final = 0.25

# After so many waits, the thread reads even without a notification. It may be lost with its
# connection, and a new primary may lack changes that the old one had.
WAITS_MAX: Final = 20

# The pause after a fault of the store.
RETRY_SECONDS: Final = 1.0

# The pause after a read that found changes, per follower and at most. To write to a follower takes
# less than a tenth of it. So followers take a small part of the time of a busy service, and a
# change after a quiet moment is sent at once.
READ_PAUSE_SECONDS: Final = 0.001
READ_PAUSE_SECONDS_MAX: Final = 0.25


# Events with the numbers of their changes, in order.
Events: TypeAlias = Iterable[tuple[int, bytes]]


def first_of(events: Events, after: int) -> tuple[bytes, int]:
    """Return the first events, up to SENT_BYTES_MAX but at least one, and the number of the last.

    If there are no events, the number is `after`.
    """
    sent: list[bytes] = []
    bytes_left = SENT_BYTES_MAX
    for number, event in events:
        bytes_left -= len(event)
        if sent and bytes_left < 0:
            break
        sent.append(event)
        after = number
    return b"".join(sent), after


def events_of(page: ChangesPage) -> Events:
    """Render the changes of a page, one by one as they are used."""
    return ((change.number, render_event(change)) for change in page.items)


class Tail:
    """The last events of the feed. Its methods must be called on one event loop.

    Attributes:
        generation: `end` increases it. The followers of an earlier generation end.
        news: is done when there are events, or it is time to look at something else.

    """

    def __init__(self, store: PlantStore, *, observe: Observer, threads: Threads = THREADS) -> None:
        self._store = store
        self._observe = observe
        self._threads = threads
        self.generation = 0
        self._followers = 0
        self._is_wanted = threads.event()  # set while there are followers, and at the end
        self._is_over = False
        # All changes after the first number, with their events. The first number has no event.
        self._events: list[tuple[int, bytes]] = []
        self._events_bytes = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept followers, on the running event loop. At the end, they are ended."""
        self._loop = asyncio.get_running_loop()
        self.news: SharedFuture[None] = SharedFuture(loop=self._loop)
        join = self._threads.start(self._follow, "feed")
        self._tick()
        try:
            yield
        finally:
            self.end()
            self._timer.cancel()
            self._is_over = True
            self.add_follower()  # so the last follower that leaves does not make the thread wait
            await asyncio.to_thread(join)

    def add_follower(self) -> None:
        """Add a follower."""
        self._followers += 1
        self._is_wanted.set()

    def remove_follower(self) -> None:
        """Remove a follower."""
        self._followers -= 1
        if not self._followers:
            self._is_wanted.clear()

    def end(self) -> None:
        """End all followers: the service stops, or this is another feed than before."""
        self.generation += 1
        self._forget()
        self._wake()

    def events_after(self, number: int) -> tuple[bytes, int] | None:
        """Return the next events after a number, and the number of the last one (`first_of`).

        Return None if not all are here, or if the number is unknown: the follower may be ahead, or
        have read it from a server that lost it since. Only the store knows.
        """
        place = bisect_left(self._events, number, key=itemgetter(0))
        if place == len(self._events) or self._events[place][0] != number:
            return None
        return first_of(islice(self._events, place + 1, None), number)

    def _tick(self) -> None:
        self._wake()
        self._timer = self._loop.call_later(WAKE_SECONDS, self._tick)

    def _wake(self) -> None:
        self.news.set_result(None)
        self.news = SharedFuture(loop=self._loop)

    def _forget(self) -> None:
        self._events, self._events_bytes = [], 0

    def _add(self, after: int, events: list[tuple[int, bytes]]) -> None:
        last = self._events[-1][0] if self._events else None
        if last != after or self._events_bytes > EVENTS_BYTES_MAX:
            self._forget()
            self._events.append((after, b""))
        self._events += events
        self._events_bytes += sum(len(event) for _, event in events)
        self._wake()

    # The thread runs the methods from here on.

    def _follow(self) -> None:
        after: int | None = None
        while self._is_wanted.wait() and not self._is_over:
            try:
                with self._store.watch_changes() as wait:
                    while self._may_read():
                        page = self._read(after)
                        after = page.end
                        if page.is_last:
                            self._wait_for_news(wait)
                after = None
            except Exception as error:  # noqa: BLE001 (without this thread, followers would wait)
                if isinstance(error, FeedError):
                    after = None
                    self._loop.call_soon_threadsafe(self.end)
                with contextlib.suppress(Exception):
                    self._observe(ReadFailed(error, 1))
                self._threads.sleep(RETRY_SECONDS)

    def _wait_for_news(self, wait: Callable[[float], bool]) -> None:
        for _ in range(WAITS_MAX):
            if wait(WAIT_SECONDS) or not self._may_read():
                return

    def _may_read(self) -> bool:
        return self._is_wanted.is_set() and not self._is_over

    def _read(self, after: int | None) -> ChangesPage:
        """Read what is new, and hand it over."""
        page = self._store.read_changes(after, PAGE_CHANGES_MAX)
        if after is None or page.items:
            begin = page.end if after is None else after
            self._loop.call_soon_threadsafe(self._add, begin, list(events_of(page)))
            self._threads.sleep(min(READ_PAUSE_SECONDS * self._followers, READ_PAUSE_SECONDS_MAX))
        return page
