"""The batches that the batcher passes to its thread, and their queue."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from plantstore.errors import RequestError

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

# How long the queue must be empty before the thread counts as idle.
IDLE_SECONDS: Final = 1.0


class _Answer(asyncio.Future[Sequence[ResultT | RequestError]]):
    """The future that all callers of a batch await. None of them can cancel it.

    asyncio cancels a task by cancelling the future that the task awaits. This future
    refuses, so the task is cancelled later, when the future is done.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (the signature is asyncio's)
        return False


class Batch(Generic[RequestT, ResultT]):
    """Requests that are answered together.

    Attributes:
        requests: what the thread runs.
        weight: of all of them.
        is_from_one_caller: whether one caller submitted them all.
        answer: the future that their callers await. If one caller submitted them, the answer is
            empty if each half of the requests must be run again.

    """

    __slots__ = ("answer", "is_from_one_caller", "requests", "weight")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, is_from_one_caller: bool = False
    ) -> None:
        self.requests: list[RequestT] = []
        self.weight = 0
        self.is_from_one_caller = is_from_one_caller
        self.answer: _Answer[ResultT] = _Answer(loop=loop)


class BatchQueue(Generic[RequestT, ResultT]):
    """Passes batches to a thread, which takes several of them for one call.

    Args:
        requests_max: number of requests in one call.
        weight_max: total weight of the requests in one call, unless a single batch weighs more.
        idle: called by the thread when there was no batch for IDLE_SECONDS. It returns after how
            many more of such seconds it is called again. Its errors are ignored.

    """

    def __init__(self, requests_max: int, weight_max: int, idle: Callable[[], float]) -> None:
        self._requests_max = requests_max
        self._weight_max = weight_max
        self._idle = idle
        self._patience = IDLE_SECONDS  # a crash may have left work for `idle`
        self._queue: SimpleQueue[Batch[RequestT, ResultT] | None] = SimpleQueue()

    def put(self, batch: Batch[RequestT, ResultT]) -> None:
        """Add a batch."""
        self._queue.put(batch)

    def close(self) -> None:
        """End `calls` after the batches that are in the queue."""
        self._queue.put(None)

    def calls(self) -> Iterator[list[Batch[RequestT, ResultT]]]:
        """Yield the batches for each call. A batch from one caller has a call of its own."""
        taken: list[Batch[RequestT, ResultT]] = []
        requests = weight = 0
        while True:
            if taken and self._queue.empty():
                yield taken
                taken, requests, weight = [], 0, 0
            batch = self._next()
            if taken and (
                batch is None
                or batch.is_from_one_caller
                or taken[0].is_from_one_caller
                or requests + len(batch.requests) > self._requests_max
                or weight + batch.weight > self._weight_max
            ):
                yield taken
                taken, requests, weight = [], 0, 0
            if batch is None:
                return
            self._patience = IDLE_SECONDS
            taken.append(batch)
            requests += len(batch.requests)
            weight += batch.weight

    def _next(self) -> Batch[RequestT, ResultT] | None:
        while True:
            try:
                return self._queue.get(timeout=self._patience)
            except Empty:
                self._patience = IDLE_SECONDS
                with contextlib.suppress(Exception):
                    self._patience = self._idle()
