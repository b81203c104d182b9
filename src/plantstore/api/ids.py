"""`/ids`: ids for new plants.

A thread hands them out, with a commit for all requests that wait (`plantstore.commit.batcher`). So
clients that ask at the same time share the wait for the disk.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import msgspec

from plantstore.api.parameters import json_response, parse_number, read_query, require_empty
from plantstore.commit.batcher import Batcher
from plantstore.errors import (
    ErrorCode,
    NothingDoneError,
    OperationError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.messages import Request, Response
from plantstore.observe import CommitFailed, Observer
from plantstore.store import PlantStore
from plantstore.threads import THREADS, Threads

# Maximum number of ids in one response. A client that loses it leaves no larger gap.
IDS_MAX: Final = 1000

# Maximum number of requests that may wait. One commit answers all of them.
WAITING_MAX: Final = 1000


class HandedOut(msgspec.Struct, frozen=True):
    """The Ids record of the interface: all ids from the first to the last one."""

    first: int
    last: int


class Ids:
    """Hands out ids. Its methods must be called on one event loop.

    Attributes:
        batcher: has the requests that wait. Its thread must run.

    """

    def __init__(
        self,
        store: PlantStore,
        *,
        observe: Observer,
        threads: Threads = THREADS,
    ) -> None:
        self._store = store
        self._observe = observe
        self.batcher: Batcher[int, range] = Batcher(
            self._hand_out,
            self._explain,
            name="ids",
            waiting_max=WAITING_MAX,
            batch_max=WAITING_MAX,
            threads=threads,
        )

    async def hand_out(self, request: Request) -> Response:
        """Hand out ids: 200 once it is on disk that they are handed out."""
        count = parse_number(read_query(request, "count"), "count", 1, IDS_MAX)
        await require_empty(request, "give the number of ids in the query, as ?count=5")
        ids = await self.batcher.submit(count)
        return json_response(msgspec.json.encode(HandedOut(ids[0], ids[-1])))

    # The methods below run on the thread.

    def _hand_out(self, counts: Sequence[int]) -> list[range]:
        ids = self._store.hand_out_ids(sum(counts))
        ends = accumulate(counts)
        return [ids[end - count : end] for end, count in zip(ends, counts, strict=True)]

    def _explain(self, error: Exception, requests: int) -> RequestError:
        if isinstance(error, OperationError):
            return RequestError(ErrorCode.IDS_EXHAUSTED, error.message)
        self._observe(CommitFailed(error, requests))
        if isinstance(error, NothingDoneError):
            return NothingDoneError(f"{error.message}; no id was handed out")
        if isinstance(error, StoreUnavailableError):
            return StoreUnavailableError(f"{error.message}; sending the request again is safe")
        message = "The service met an unexpected error; sending the request again is safe"
        return RequestError(ErrorCode.INTERNAL, message)
