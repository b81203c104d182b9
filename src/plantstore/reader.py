"""Group read: what is asked for at the same time is looked up together, off the event loop.

A look-up in the page cache takes microseconds, but one that waits for the disk takes
milliseconds, in which nobody else would be answered. So reads have threads of their own
(`plantstore.batcher`). Look-ups go to theirs in batches, each of which is one query.
Listings cost more: they go to another thread, a few at a time, so that a look-up waits for
none of them.
"""

import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from plantstore.batcher import Batcher
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.observe import Observer, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import Page, Store

# Look-ups that are answered together. It bounds the plants that are in memory at a time;
# sharing a query among more would gain little.
BATCH_READS_MAX: Final = 16

# Listings that are answered together, and the plants that they may ask for together, unless a
# single one asks for more. It bounds how long the first of them waits, and what comes to the
# event loop in one turn. With four small pages instead of 32 each would cost a third more.
BATCH_LISTINGS_MAX: Final = 32
BATCH_LISTED_PLANTS_MAX: Final = 3_200


class Listing(NamedTuple):
    """What `Store.list_plants` is asked for."""

    after: int | None
    limit: int
    tag: str | None


class GroupRead:
    """Reads plants. Its methods belong to one event loop.

    Args:
        store: what is read; `find_plants` and `list_plants` are each called by one
            thread. The caller closes it, after this.
        queue_reads_max: look-ups that may wait, and listings that may wait.
        observe: is told what happens, on either thread.

    """

    def __init__(self, store: Store, *, queue_reads_max: int, observe: Observer) -> None:
        self._store = store
        self._observe = observe
        self._finder: Batcher[int, NewPlant | None] = Batcher(
            self._find,
            self._explain,
            name="finder",
            waiting_max=queue_reads_max,
            weight_max=1,  # reads weigh nothing
            batch_max=BATCH_READS_MAX,
            batch_weight_max=1,
        )
        self._lister: Batcher[Listing, Page] = Batcher(
            self._list,
            self._explain,
            name="lister",
            waiting_max=queue_reads_max,
            weight_max=sys.maxsize,  # their number bounds them
            batch_max=BATCH_LISTINGS_MAX,
            batch_weight_max=BATCH_LISTED_PLANTS_MAX,
        )

    def start(self) -> None:
        """Begin to accept reads, on the running event loop."""
        self._finder.start()
        self._lister.start()

    @property
    def waiting(self) -> int:
        """How many reads wait for their answer."""
        return self._finder.waiting + self._lister.waiting

    async def find_plant(self, id_: int) -> NewPlant | None:
        """Return the plant with this id, or None; every change answered before is seen.

        Raises:
            RequestError: OVERLOADED when too many look-ups wait, or the memory is
                exhausted; STORE_UNAVAILABLE when the storage cannot be read, or the
                service is stopping; INTERNAL when the store met an unforeseen error.

        """
        return await self._finder.submit(id_)

    async def list_plants(self, listing: Listing) -> Page:
        """Return a page of plants; every change answered before is seen.

        Raises:
            RequestError: as `find_plant` does.

        """
        return await self._lister.submit(listing, listing.limit)

    async def close(self) -> None:
        """Refuse what comes from now on; return when all that came is answered."""
        await self._finder.close()
        await self._lister.close()

    def _find(self, ids: Sequence[int]) -> list[NewPlant | None]:
        found = self._store.find_plants(ids)
        return [found.get(id_) for id_ in ids]

    def _list(self, listings: Sequence[Listing]) -> list[Page]:
        return [self._store.list_plants(**listing._asdict()) for listing in listings]

    def _explain(self, error: Exception, reads: int) -> RequestError:
        self._observe(ReadFailed(error, reads))
        if isinstance(error, StoreUnavailableError):
            return error
        if isinstance(error, MemoryError):
            return RequestError(ErrorCode.OVERLOADED, "The service is out of memory for this read")
        return RequestError(ErrorCode.INTERNAL, "The plants could not be read")
