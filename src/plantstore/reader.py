"""Group read: what is asked for at the same time is looked up together, off the event loop.

A look-up in the page cache takes microseconds, but one that waits for the disk takes
milliseconds, in which nobody else would be answered. So reads have a thread of their
own, and go to it in batches (`plantstore.batcher`): the look-ups of a batch are one
query, each listing is one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from plantstore.batcher import Batcher
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.observe import Observer, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import Page, Store

# Reads that are answered together. It bounds the pages that are in memory at a time, and
# how long a look-up waits for listings; sharing a wake-up among more would gain little.
BATCH_READS_MAX: Final = 16


class Listing(NamedTuple):
    """What `Store.list_plants` is asked for."""

    after: int | None
    limit: int
    tag: str | None


_Read: TypeAlias = int | Listing
_Result: TypeAlias = NewPlant | Page | None


class GroupRead:
    """Reads plants, many at a time. Its methods belong to one event loop.

    Args:
        store: what is read; `find_plants` and `list_plants` are called by the
            reader's thread alone. The caller closes it, after this.
        queue_reads_max: reads that may wait.
        observe: is told what happens, on the reader's thread.

    """

    def __init__(self, store: Store, *, queue_reads_max: int, observe: Observer) -> None:
        self._store = store
        self._observe = observe
        self._batcher: Batcher[_Read, _Result] = Batcher(
            self._read,
            self._explain,
            name="reader",
            waiting_max=queue_reads_max,
            weight_max=1,  # reads weigh nothing
            batch_max=BATCH_READS_MAX,
        )

    def start(self) -> None:
        """Begin to accept reads, on the running event loop."""
        self._batcher.start()

    @property
    def waiting(self) -> int:
        """How many reads wait for their answer."""
        return self._batcher.waiting

    async def find_plant(self, id_: int) -> NewPlant | None:
        """Return the plant with this id, or None; every change answered before is seen.

        Raises:
            RequestError: OVERLOADED when too many reads wait; STORE_UNAVAILABLE
                when the storage cannot be read, or the service is stopping;
                INTERNAL when the store met an unforeseen error.

        """
        return cast("NewPlant | None", await self._batcher.submit(id_))

    async def list_plants(self, listing: Listing) -> Page:
        """Return a page of plants; every change answered before is seen.

        Raises:
            RequestError: as `find_plant` does.

        """
        return cast("Page", await self._batcher.submit(listing))

    async def close(self) -> None:
        """Refuse what comes from now on; return when all that came is answered."""
        await self._batcher.close()

    def _read(self, reads: Sequence[_Read]) -> list[_Result]:
        ids = [read for read in reads if isinstance(read, int)]
        found = self._store.find_plants(ids) if ids else {}
        return [
            found.get(read)
            if isinstance(read, int)
            else self._store.list_plants(after=read.after, limit=read.limit, tag=read.tag)
            for read in reads
        ]

    def _explain(self, error: Exception, reads: int) -> RequestError:
        self._observe(ReadFailed(error, reads))
        if isinstance(error, StoreUnavailableError):
            return error
        return RequestError(ErrorCode.INTERNAL, "The plants could not be read")
