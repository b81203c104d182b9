"""The batches that the batcher passes to its thread, and their queue."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from plantstore.errors import BatchRefusedError, RequestError

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT")

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
        is_from_one_caller: whether one caller submitted them all.
        answer: the future that their callers await. If one caller submitted them, the answer is
            empty if each of the requests must be run again by itself.

    """

    __slots__ = ("answer", "is_from_one_caller", "requests")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *, is_from_one_caller: bool = False
    ) -> None:
        self.requests: list[RequestT] = []
        self.is_from_one_caller = is_from_one_caller
        self.answer: _Answer[ResultT] = _Answer(loop=loop)


class BatchQueue(Generic[RequestT, ResultT]):
    """Passes batches to a thread, which takes several of them for one call.

    Args:
        requests_max: number of requests in one call.
        idle: called by the thread when there was no batch for IDLE_SECONDS. It returns the time
            until its next call, in seconds. Its errors are ignored.

    """

    def __init__(self, requests_max: int, idle: Callable[[], float]) -> None:
        self._requests_max = requests_max
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
        requests = 0
        while True:
            if taken and self._queue.empty():
                yield taken
                taken, requests = [], 0
            batch = self._next()
            if taken and (
                batch is None
                or batch.is_from_one_caller
                or taken[0].is_from_one_caller
                or requests + len(batch.requests) > self._requests_max
            ):
                yield taken
                taken, requests = [], 0
            if batch is None:
                return
            self._patience = IDLE_SECONDS
            taken.append(batch)
            requests += len(batch.requests)

    def _next(self) -> Batch[RequestT, ResultT] | None:
        while True:
            try:
                return self._queue.get(timeout=self._patience)
            except Empty:
                self._patience = IDLE_SECONDS
                with contextlib.suppress(Exception):
                    self._patience = self._idle()


def run_each_if_refused(
    run: Callable[[Sequence[RequestT]], Sequence[ResultT]],
    requests: Sequence[RequestT],
    explain: Callable[[Exception, int], ErrorT],
) -> list[ResultT | ErrorT]:
    """Run requests in one call. If one of them may have caused an error, run each by itself.

    Args:
        run: returns a result for each request.
        requests: what to run.
        explain: is called with the error of a call that is not repeated, and with the number of
            its requests. It returns the result of each of them, or raises.

    Returns:
        A result for each request.

    """
    results = run_once(run, requests, explain)
    if results or not requests:
        return results
    return [run_once(run, [request], explain)[0] for request in requests]


def run_once(
    run: Callable[[Sequence[RequestT]], Sequence[ResultT]],
    requests: Sequence[RequestT],
    explain: Callable[[Exception, int], ErrorT],
) -> list[ResultT | ErrorT]:
    """Run requests in one call. The arguments are those of `run_each_if_refused`.

    Returns:
        A result for each request; none if the call failed, and each of several requests must be
        run by itself.

    """
    try:
        return [*run(requests)]
    except Exception as error:  # noqa: BLE001 (`explain` decides)
        if len(requests) > 1 and _may_lie_in_one(error):
            return []
        return [explain(error, len(requests))] * len(requests)


def _may_lie_in_one(error: Exception) -> bool:
    return isinstance(error, BatchRefusedError) or not isinstance(error, RequestError | MemoryError)
