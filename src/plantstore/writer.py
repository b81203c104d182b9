"""Group commit: many changes, one durable transaction.

Theory of operation
-------------------
A commit waits for the disk, and the disk takes as long for a hundred changes as for
one. So one thread owns the writing, and commits whatever waits together. How
changes get to it and answers back, `plantstore.batcher` tells; what makes it a
group commit is that `Store.apply_changes` returns once the batch is on disk:

No caller hears "stored" before the commit that holds its change (there, rule 1).
    A conflict is an outcome, not an error: it never fails its neighbours.
A failed commit fails its callers and nothing else. Whether it took effect may be
    unknown, and its callers are told so: sending again is safe. The next batch
    succeeds when the cause is gone.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import Final

from plantstore.batcher import Batcher
from plantstore.errors import (
    BatchRefusedError,
    ErrorCode,
    RequestError,
    StoreUnavailableError,
    StoreUnreachableError,
)
from plantstore.observe import (
    CommitFailed,
    Committed,
    Observer,
    WriterStarted,
    WriterStopped,
)
from plantstore.plants import NewPlant
from plantstore.store import Change, Deletion, Outcome, Store

# Characters of names and tags in one transaction, unless a single plant has more. It bounds how
# long its callers and those of the next one wait, and the memory of the text as which a batch
# goes to the store, in which a character may take six bytes.
BATCH_CHARACTERS_MAX: Final = 4 * 1024 * 1024

# How long a failed commit counts, unless another succeeds: a probe may find room, or a standby,
# where a commit does not.
FAILURE_SECONDS: Final = 10.0

_IN_DOUBT: Final = "the change may or may not be made, and sending it again is safe"
_NOT_MADE: Final = RequestError(ErrorCode.INTERNAL, "The change could not be made")


class GroupCommit:
    """Makes changes durably, many at a time. Its methods belong to one event loop.

    Args:
        store: what is changed; `apply_changes` is called by the writer's thread
            alone. The caller closes it, after this.
        queue_plants_max: changes that may wait.
        queue_characters_max: characters of their names and tags that may wait;
            the change that reaches it is still taken.
        batch_plants_max: changes in one transaction.
        observe: is told what happens, on either thread.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self,
        store: Store,
        *,
        queue_plants_max: int,
        queue_characters_max: int,
        batch_plants_max: int,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._observe = observe
        self._monotonic = monotonic
        self._committed_at = -math.inf
        self._failed_at = -math.inf
        self._failure: StoreUnavailableError | None = None
        self._batcher: Batcher[Change, Outcome] = Batcher(
            self._apply,
            self._explain,
            name="writer",
            waiting_max=queue_plants_max,
            weight_max=queue_characters_max,
            batch_max=batch_plants_max,
            batch_weight_max=BATCH_CHARACTERS_MAX,
            idle=store.trim,
        )

    def start(self) -> None:
        """Begin to accept changes, on the running event loop."""
        self._batcher.start()
        self._observe(WriterStarted())

    @property
    def waiting(self) -> int:
        """How many changes wait for their answer."""
        return self._batcher.waiting

    def is_full(self) -> bool:
        """Tell whether a change would be refused now."""
        return self._batcher.is_full()

    def seconds_since_commit(self) -> float:
        """Return how long ago a commit last succeeded; infinity if none did."""
        return self._monotonic() - self._committed_at

    def recent_failure(self) -> StoreUnavailableError | None:
        """Return why the last commit failed, if it did, less than FAILURE_SECONDS ago."""
        failure = self._failure
        return failure if self._monotonic() - self._failed_at < FAILURE_SECONDS else None

    async def submit(self, change: Change) -> Outcome:
        """Make a change, and return when its fate is on disk.

        Raises:
            RequestError: OVERLOADED when the queue is full, and nothing is
                done, or the memory is exhausted; STORE_UNAVAILABLE when the
                commit failed, or the service is stopping; INTERNAL when the
                store met an unforeseen error.

        """
        return await self._batcher.submit(change, _characters(change))

    async def close(self) -> None:
        """Refuse what comes from now on; return when all that came is committed."""
        if await self._batcher.close():
            self._observe(WriterStopped())

    def _apply(self, changes: Sequence[Change]) -> list[Outcome]:
        began = time.perf_counter()
        outcomes = self._store.apply_changes(changes)
        self._committed_at = self._monotonic()
        self._failure = None
        self._observe(Committed(outcomes, time.perf_counter() - began))
        return outcomes

    def _explain(self, error: Exception, changes: int) -> RequestError:
        if isinstance(error, StoreUnavailableError) and not isinstance(error, BatchRefusedError):
            self._failed_at = self._monotonic()
            self._failure = error
        self._observe(CommitFailed(error, changes))
        if isinstance(error, StoreUnreachableError | BatchRefusedError):
            return StoreUnavailableError(f"{error.message}; nothing was done")
        if isinstance(error, StoreUnavailableError):
            return StoreUnavailableError(f"{error.message}; {_IN_DOUBT}")
        if isinstance(error, MemoryError):
            return RequestError(ErrorCode.OVERLOADED, f"The service is out of memory; {_IN_DOUBT}")
        return _NOT_MADE


def _characters(change: Change) -> int:
    if isinstance(change, Deletion):
        return 0
    plant = change if isinstance(change, NewPlant) else change.plant
    return len(plant.name) + len(plant.tag or "")
