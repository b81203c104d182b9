"""Group read: concurrent reads are executed in batches, outside of the event loop.

A lookup in the page cache takes microseconds. A lookup that waits for the disk takes
milliseconds, and would delay all other requests on the event loop. So reads run on separate
threads (`plantstore.commit.batcher`). `plantstore.store.READS` has their kinds and their threads.

A lookup costs little, and the others do not. So of these, only as many as the threads can run at
once are handed over. The others wait in a fair queue, and are dropped if their client leaves.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, Final, TypeVar, TypeVarTuple

from plantstore.commit.batcher import Batcher
from plantstore.errors import (
    ClientGoneError,
    ErrorCode,
    FeedError,
    QueueFullError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.listings import Listing, PlantsPage
from plantstore.messages import Request
from plantstore.observe import Observer, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import READS, PlantStore
from plantstore.threads import THREADS, Threads

# Reads of each kind that may wait.
WAITING_READS_MAX: Final = 1_000

ArgumentsT = TypeVarTuple("ArgumentsT")
ResultT = TypeVar("ResultT")


class FairQueue:
    """Limits how many requests run at a time, so that no client can make all others wait.

    The others wait: those of each token in a queue. Clients without a token share one, and the
    service itself has one. The queues are served one after the other, a request each. A request
    whose client has left is dropped instead of being run.

    Args:
        running_max: how many may run.
        waiting_max: how many may wait, at least one; three quarters of them may have one token.

    Attributes:
        waiting: how many wait.

    """

    def __init__(self, running_max: int, waiting_max: int) -> None:
        self._free = running_max
        self._waiting_max = waiting_max
        self._per_token_max = max(1, waiting_max * 3 // 4)
        # By token; that of the service is None. The next one to be served is the first.
        self._places: dict[str | None, deque[tuple[asyncio.Future[None], Request | None]]] = {}
        self.waiting = 0

    async def acquire(self, caller: Request | None) -> None:
        """Wait until the request of a caller may run. Call `release` when it has run.

        Args:
            caller: None for the service itself.

        Raises:
            QueueFullError: too many wait.
            ClientGoneError: the client has left.

        """
        if self._free:
            self._free -= 1
            return
        token = None if caller is None else caller.token
        if not self._has_room(token):
            self._drop_left()
            if not self._has_room(token):
                raise QueueFullError
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._places.setdefault(token, deque()).append((place, caller))
        self.waiting += 1
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled() and place.exception() is None:  # it may run
                self.release()
            raise

    def release(self) -> None:
        """Let the next request run."""
        while self._places:
            token = next(iter(self._places))
            places = self._places.pop(token)
            place, caller = places.popleft()
            self.waiting -= 1
            if places:
                self._places[token] = places  # behind the others
            if not _has_left(place, caller):
                place.set_result(None)
                return
        self._free += 1

    def _has_room(self, token: str | None) -> bool:
        is_full = self.waiting >= self._waiting_max
        return not is_full and len(self._places.get(token, ())) < self._per_token_max

    def _drop_left(self) -> None:
        """Drop requests whose clients have left: those at the beginning of the longest queue.

        To ask for each client would make a refusal expensive, and the service is overloaded.
        """
        token = max(self._places, key=lambda each: len(self._places[each]))
        places = self._places[token]
        while places and _has_left(*places[0]):
            places.popleft()
            self.waiting -= 1
        if not places:
            del self._places[token]


def _has_left(place: asyncio.Future[None], caller: Request | None) -> bool:
    """Return whether nobody waits for a place any more. A caller whose client has left is told."""
    if not place.done() and caller is not None and caller.is_client_gone():
        place.set_exception(ClientGoneError())
    return place.done()


class GroupRead:
    """Reads the store in batches. Its methods must be called on one event loop.

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
        self._store = store
        self._observe = observe

        def batchers(kind: str, run: Callable[..., Sequence[Any]]) -> list[Batcher[Any, Any]]:
            return [
                Batcher(
                    run,
                    self._explain,
                    name=f"{kind}-{number}",
                    waiting_max=waiting_max,
                    batch_max=READS[kind].batch_max,
                    threads=threads,
                )
                for number in range(1, READS[kind].threads + 1)
            ]

        [self._lookups] = batchers("find_plants", self._find)
        self._batchers: dict[str, list[Batcher[Any, Any]]] = {}
        self._queues: dict[str, FairQueue] = {}
        for kind, reads in READS.items():
            if kind != "find_plants":
                method = getattr(store, "list_plants" if kind == "search" else kind)
                self._batchers[kind] = batchers(kind, partial(_run, method))
                self._queues[kind] = FairQueue(reads.threads * reads.batch_max, waiting_max)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept reads, on the running event loop.

        At the end of the block, reads that have not begun are refused, and all others are answered.
        """
        async with contextlib.AsyncExitStack() as stack:
            for batcher in self._all_batchers():
                await stack.enter_async_context(batcher.running())
            yield

    @property
    def waiting(self) -> int:
        """The number of reads that are not answered yet."""
        begun = sum(each.waiting for each in self._all_batchers())
        return begun + sum(each.waiting for each in self._queues.values())

    async def find_plant(self, id_: int) -> NewPlant | None:
        """Return the plant with this id, or None. It sees every change confirmed before.

        Raises:
            RequestError: OVERLOADED if too many lookups wait or the memory is exhausted;
                STORE_UNAVAILABLE if the store cannot be read or the service is stopping;
                INTERNAL if the store failed with an unexpected error.

        """
        found: NewPlant | None = await self._lookups.submit(id_)
        return found

    async def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        """Return the stored plants among many ids, by id. They are looked up as in `submit_all`.

        Raises:
            RequestError: as `find_plant` does, but not because too many lookups wait.

        """
        found = {}
        for plant in await self._lookups.submit_all(ids):
            if isinstance(plant, RequestError):
                raise plant.again()
            if plant is not None:
                found[plant.id] = plant
        return found

    async def list_plants(self, listing: Listing, caller: Request | None = None) -> PlantsPage:
        """Return a page of plants, as `read` does. It sees every change confirmed before."""
        kind = "search" if listing.is_search else "list_plants"
        page: PlantsPage = await self._read(caller, kind, listing)
        return page

    async def read(
        self,
        caller: Request | None,
        method: Callable[[PlantStore, *ArgumentsT], ResultT],
        *arguments: *ArgumentsT,
    ) -> ResultT:
        """Return the result of another method of READS, such as `PlantStore.read_changes`.

        Args:
            caller: waits for the result; None for the service itself.
            method: of the store.
            arguments: of the method.

        Raises:
            RequestError: what the method raises; or as `find_plant` does.
            ClientGoneError: the caller has left.

        """
        result: ResultT = await self._read(caller, method.__name__, *arguments)
        return result

    async def _read(self, caller: Request | None, kind: str, *arguments: object) -> Any:  # noqa: ANN401 (of the method)
        queue = self._queues[kind]
        await queue.acquire(caller)
        try:
            batcher = min(self._batchers[kind], key=lambda each: each.waiting)
            return await batcher.submit(arguments)
        finally:
            queue.release()

    def _all_batchers(self) -> Iterator[Batcher[Any, Any]]:
        return chain([self._lookups], *self._batchers.values())

    def _find(self, ids: Sequence[int]) -> list[NewPlant | None]:
        """Return the plants with some ids."""
        found = self._store.find_plants(ids)
        return [found.get(id_) for id_ in ids]

    def _explain(self, error: Exception, reads: int) -> RequestError:
        if isinstance(error, FeedError):
            return error
        self._observe(ReadFailed(error, reads))
        if isinstance(error, StoreUnavailableError):
            return error
        if isinstance(error, MemoryError):
            return RequestError(ErrorCode.OVERLOADED, "The service is out of memory for this read")
        return RequestError(ErrorCode.INTERNAL, "The plants could not be read")


def _run(method: Callable[..., ResultT], reads: Sequence[tuple[Any, ...]]) -> list[ResultT]:
    """Return the results of reads: tuples of arguments. Equal reads share one result."""
    results = {read: method(*read) for read in {*reads}}
    return [results[read] for read in reads]
