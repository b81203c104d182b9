"""Group commit: many changes, one durable transaction.

Theory of operation
-------------------
A commit waits for the disk, and the disk takes as long for a hundred changes as for
one. So one thread does all the writing, and commits all waiting changes in one
transaction. `plantstore.commit.batcher` passes the changes to the thread and the outcomes back.
`Store.apply_changes` returns only when the batch is on disk. This has two consequences:

- No caller gets "stored" before the commit of its change has returned (rule 1 of the
  batcher). A conflict is an outcome and not an error, so it never affects its neighbours.
- A failed commit affects only its own callers. If it is unknown whether the commit took
  effect, their error says so, and that a retry is safe. The next batch succeeds when the
  cause is gone.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from plantstore.changes import CHANGED, Change, PlantOutcome, Result
from plantstore.commit.batcher import NO_TURNSTILE, Batcher
from plantstore.errors import (
    BatchRefusedError,
    ErrorCode,
    NothingDoneError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.observe import CommitFailed, Committed, Observer
from plantstore.store import PlantStore
from plantstore.threads import THREADS, Threads

_IN_DOUBT: Final = "the change may or may not be made, and sending it again is safe"

# Changes that may wait for a commit. They wait for less than a second. Their memory is bounded by
# that of the requests that are not answered (`plantstore.server.budget`).
WAITING_CHANGES_MAX: Final = 10_000

# Changes in one transaction. With more, a commit takes longer, and hardly less time per change.
BATCH_CHANGES_MAX: Final = 1_000


class GroupCommit(Batcher[Change, Result]):
    """Applies changes durably, in batches. Its methods must be called on one event loop.

    `submit` and `submit_all` return the outcomes of changes whose commit is on disk. The errors of
    a change are OVERLOADED if the queue is full (the change was not made) or the memory is
    exhausted; STORE_UNAVAILABLE if the commit failed or the service is stopping; INTERNAL if the
    store or an observer failed with an unexpected error.

    Args:
        store: only the writer's thread calls its `apply_changes`. The caller closes the
            store after the writer.
        observe: gets the events, on the writer's thread.
        monotonic: a clock in seconds that never goes back.
        waiting_max: number of changes that may wait.
        batch_max: number of changes in one transaction.
        turnstile: what the writer enters for each transaction.
        threads: makes the writer's thread.

    Attributes:
        failure: the error of the last commit; None if a change was committed since.
        failed_at: the time of the last failure.

    """

    def __init__(
        self,
        store: PlantStore,
        *,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
        waiting_max: int = WAITING_CHANGES_MAX,
        batch_max: int = BATCH_CHANGES_MAX,
        turnstile: AbstractContextManager[object] = NO_TURNSTILE,
        threads: Threads = THREADS,
    ) -> None:
        self._store = store
        self._observe = observe
        self._monotonic = monotonic
        self.failed_at = -math.inf
        self.failure: StoreUnavailableError | None = None
        super().__init__(
            self._apply,
            self._explain_failure,
            name="writer",
            waiting_max=waiting_max,
            batch_max=batch_max,
            idle=store.maintain,
            turnstile=turnstile,
            threads=threads,
        )

    def _apply(self, changes: Sequence[Change]) -> list[Result]:
        began = time.perf_counter()
        outcomes = self._store.apply_changes(changes)
        if self.failure is not None and any(map(_has_changed, outcomes)):
            self.failure = None  # a commit without changes writes nothing
        self._observe(Committed(outcomes, time.perf_counter() - began))
        return outcomes

    def _explain_failure(self, error: Exception, changes: int) -> RequestError:
        if isinstance(error, StoreUnavailableError) and not isinstance(error, BatchRefusedError):
            self.failed_at = self._monotonic()
            self.failure = error
        self._observe(CommitFailed(error, changes))
        if isinstance(error, NothingDoneError | BatchRefusedError):
            return type(error)(f"{error.message}; nothing was done")
        if isinstance(error, StoreUnavailableError):
            return StoreUnavailableError(f"{error.message}; {_IN_DOUBT}")
        if isinstance(error, MemoryError):
            return RequestError(ErrorCode.OVERLOADED, f"The service is out of memory; {_IN_DOUBT}")
        message = f"The service met an unexpected error; {_IN_DOUBT}"
        return RequestError(ErrorCode.INTERNAL, message)


def _has_changed(result: Result) -> bool:
    return (result.outcome if isinstance(result, PlantOutcome) else result) in CHANGED
