"""Group read: concurrent reads are executed in batches, outside of the event loop.

A lookup in the page cache takes microseconds. A lookup that waits for the disk takes
milliseconds, and would delay all other requests on the event loop. So reads run on separate
threads (`plantstore.commit.batcher`). A batch of lookups is one query. Listings take longer, so
they have a second thread, and no lookup waits for a listing. Searches take even longer, and have
threads of their own. So do pages of the feed: many followers may catch up at once.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any, Final

from plantstore.commit.batcher import Batcher
from plantstore.errors import ErrorCode, FeedError, RequestError, StoreUnavailableError
from plantstore.feed import ChangesPage
from plantstore.listings import Listing, PlantsPage
from plantstore.observe import Observer, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import SEARCH_THREADS, PlantStore
from plantstore.threads import THREADS, Threads

# Maximum number of lookups in one query. It limits the plants in memory. With 16, a lookup takes 63
# instead of 43 microseconds of CPU time, because the threads wait for each other more often.
BATCH_READS_MAX: Final = 64

# Maximum number of listings in one batch. It limits how long the first listing of a batch waits,
# and how much the event loop has to send in one turn. Searches are not put into batches.
BATCH_LISTINGS_MAX: Final = 16

# Lookups that may wait, and also searches, and also other listings.
WAITING_READS_MAX: Final = 1_000


class GroupRead:
    """Reads plants in batches. Its methods must be called on one event loop.

    Args:
        store: one thread calls its `find_plants`, and several its `list_plants`. The caller
            closes the store after the reader.
        observe: gets the events, on any of the threads.
        waiting_max: number of lookups that may wait, of searches, and of other listings.
        threads: makes the threads.

    """

    def __init__(
        self,
        store: PlantStore,
        *,
        observe: Observer,
        waiting_max: int = WAITING_READS_MAX,
        threads: Threads = THREADS,
    ) -> None:
        self._store = store
        self._observe = observe
        self._finder: Batcher[int, NewPlant | None] = Batcher(
            self._find,
            self._explain,
            name="finder",
            waiting_max=waiting_max,
            batch_max=BATCH_READS_MAX,
            threads=threads,
        )
        lister = partial(Batcher[Listing, PlantsPage], self._list, self._explain, threads=threads)
        self._lister = lister(name="lister", waiting_max=waiting_max, batch_max=BATCH_LISTINGS_MAX)
        # A request that is refused affects no other, because each is a batch.
        self._changes = Batcher[tuple[int | None, int], ChangesPage](
            self._read_changes,
            self._explain,
            name="changes",
            waiting_max=waiting_max,
            batch_max=1,
            threads=threads,
        )
        searches_max = max(1, waiting_max // SEARCH_THREADS)
        self._searchers = [
            lister(name=f"searcher-{number}", waiting_max=searches_max, batch_max=1)
            for number in range(1, SEARCH_THREADS + 1)
        ]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept reads, on the running event loop.

        At the end of the block, new reads are refused, and all accepted ones are answered.
        """
        async with contextlib.AsyncExitStack() as stack:
            for batcher in self._batchers:
                await stack.enter_async_context(batcher.running())
            yield

    @property
    def waiting(self) -> int:
        """The number of reads that are not answered yet."""
        return sum(batcher.waiting for batcher in self._batchers)

    @property
    def _batchers(self) -> list[Batcher[Any, Any]]:
        return [self._finder, self._lister, self._changes, *self._searchers]

    async def find_plant(self, id_: int) -> NewPlant | None:
        """Return the plant with this id, or None. It sees every change confirmed before.

        Raises:
            RequestError: OVERLOADED if too many lookups wait or the memory is exhausted;
                STORE_UNAVAILABLE if the store cannot be read or the service is stopping;
                INTERNAL if the store failed with an unexpected error.

        """
        return await self._finder.submit(id_)

    async def list_plants(self, listing: Listing) -> PlantsPage:
        """Return a page of plants. It sees every change confirmed before.

        Raises:
            RequestError: as `find_plant` does.

        """
        if listing.words is None:
            return await self._lister.submit(listing)
        return await min(self._searchers, key=lambda searcher: searcher.waiting).submit(listing)

    async def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        """Return the next changes after a number, as `PlantStore.read_changes` does.

        Raises:
            RequestError: FEED_OFF or CHANGES_GONE; or as `find_plant` does.

        """
        return await self._changes.submit((after, limit))

    def _find(self, ids: Sequence[int]) -> list[NewPlant | None]:
        found = self._store.find_plants(ids)
        return [found.get(id_) for id_ in ids]

    def _list(self, listings: Sequence[Listing]) -> list[PlantsPage]:
        return [self._store.list_plants(listing) for listing in listings]

    def _read_changes(self, requests: Sequence[tuple[int | None, int]]) -> list[ChangesPage]:
        return [self._store.read_changes(*request) for request in requests]

    def _explain(self, error: Exception, reads: int) -> RequestError:
        if isinstance(error, FeedError):
            return error
        self._observe(ReadFailed(error, reads))
        if isinstance(error, StoreUnavailableError):
            return error
        if isinstance(error, MemoryError):
            return RequestError(ErrorCode.OVERLOADED, "The service is out of memory for this read")
        return RequestError(ErrorCode.INTERNAL, "The plants could not be read")
