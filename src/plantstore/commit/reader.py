"""Group read: concurrent reads are executed in batches, outside of the event loop.

A lookup in the page cache takes microseconds. A lookup that waits for the disk takes
milliseconds, and would delay all other requests on the event loop. So reads run on separate
threads (`plantstore.commit.batcher`). `plantstore.store.READS` has their kinds and their threads.
"""

import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from plantstore.commit.batcher import Batcher
from plantstore.errors import ErrorCode, FeedError, RequestError, StoreUnavailableError
from plantstore.feed import ChangesPage
from plantstore.listings import Listing, PlantsPage
from plantstore.observe import Observer, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import READS, PlantStore
from plantstore.threads import THREADS, Threads

# Reads of each kind that may wait.
WAITING_READS_MAX: Final = 1_000

ReadT = TypeVar("ReadT")
ResultT = TypeVar("ResultT")


def one_by_one(read: Callable[[ReadT], ResultT]) -> Callable[[Sequence[ReadT]], list[ResultT]]:
    """Return a function that runs each read of a batch by itself."""
    return lambda batch: [read(one) for one in batch]


class GroupRead:
    """Reads plants in batches. Its methods must be called on one event loop.

    Args:
        store: is read, by the threads of READS. The caller closes it after the reader.
        observe: gets the events, on any of the threads.
        waiting_max: number of reads of each kind that may wait.
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
        self._observe = observe
        self._waiting_max = waiting_max
        self._threads = threads
        self._batchers: list[Batcher[Any, Any]] = []

        def find(ids: Sequence[int]) -> list[NewPlant | None]:
            found = store.find_plants(ids)
            return [found.get(id_) for id_ in ids]

        def read_changes(request: tuple[int | None, int]) -> ChangesPage:
            return store.read_changes(*request)

        self._find = self._prepare("find", find)
        (self._finder,) = self._batchers
        self._list = self._prepare("list", one_by_one(store.list_plants))
        self._search = self._prepare("search", one_by_one(store.list_plants))
        self._changes = self._prepare("changes", one_by_one(read_changes))

    def _prepare(
        self, kind: str, run: Callable[[Sequence[ReadT]], list[ResultT]]
    ) -> Callable[[ReadT], Awaitable[ResultT]]:
        """Prepare the threads of a kind of READS; return what submits a read to one of them."""
        reads = READS[kind]
        batchers = [
            Batcher(
                run,
                self._explain,
                name=f"{kind}-{number}",
                waiting_max=math.ceil(self._waiting_max / reads.threads),
                batch_max=reads.batch_max,
                threads=self._threads,
            )
            for number in range(1, reads.threads + 1)
        ]
        self._batchers += batchers
        return lambda read: min(batchers, key=lambda each: each.waiting).submit(read)

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

    async def find_plant(self, id_: int) -> NewPlant | None:
        """Return the plant with this id, or None. It sees every change confirmed before.

        Raises:
            RequestError: OVERLOADED if too many lookups wait or the memory is exhausted;
                STORE_UNAVAILABLE if the store cannot be read or the service is stopping;
                INTERNAL if the store failed with an unexpected error.

        """
        return await self._find(id_)

    async def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        """Return the stored plants among many ids, by id. They wait their turn, as in `submit_all`.

        Raises:
            RequestError: as `find_plant` does, but not because too many lookups wait.

        """
        found = {}
        for plant in await self._finder.submit_all(ids):
            if isinstance(plant, RequestError):
                raise RequestError(plant.code, plant.message)
            if plant is not None:
                found[plant.id] = plant
        return found

    async def list_plants(self, listing: Listing) -> PlantsPage:
        """Return a page of plants. It sees every change confirmed before.

        Raises:
            RequestError: as `find_plant` does.

        """
        return await (self._list if listing.words is None else self._search)(listing)

    async def read_changes(self, after: int | None, limit: int) -> ChangesPage:
        """Return the next changes after a number, as `PlantStore.read_changes` does.

        Raises:
            RequestError: FEED_OFF or CHANGES_GONE; or as `find_plant` does.

        """
        return await self._changes((after, limit))

    def _explain(self, error: Exception, reads: int) -> RequestError:
        if isinstance(error, FeedError):
            return error
        self._observe(ReadFailed(error, reads))
        if isinstance(error, StoreUnavailableError):
            return error
        if isinstance(error, MemoryError):
            return RequestError(ErrorCode.OVERLOADED, "The service is out of memory for this read")
        return RequestError(ErrorCode.INTERNAL, "The plants could not be read")
