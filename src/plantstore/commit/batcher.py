"""A queue between the event loop and a thread, which runs requests in batches.

Theory of operation
-------------------
Handing a request over to another thread takes longer than most requests take to run.
So requests are handed over in batches:

    event loop: submit, submit, submit --batch--> queue --> thread: run
         ^                                                    |
         +------------- one wake-up for all callers ----------+

The event loop collects the requests of one or two iterations in a batch, and then puts the
batch into the queue. The thread takes all batches from the queue, up to a limit, runs
them in one call, and wakes the event loop once to answer all callers. The thread never
waits for more requests. Requests gather while the previous call runs, so calls are small
when the service is idle and large when it is busy.

Rule 1: no caller is answered before the call that runs its request has returned. One
    method answers all callers, with the results of the call.
Rule 2: a caller that is cancelled loses only its own result. All callers of a batch
    await one future, which cannot be cancelled.
Rule 3: a full queue refuses a request at once. Waiting would only hide the overload.
    A request counts from `submit` until its result.
Rule 4: a request that is refused never affects its neighbours. If a call says that it did
    nothing, and one of its requests may be the cause, its halves are run by themselves, and so on.
    Other requests may be run between the halves of a batch of `submit_all`. After any other error,
    the call may have taken effect, so it is not run again.
Rule 5: a failed call fails its callers and nothing else. Only the end of `running` ends the thread.
Rule 6: the end of `running` refuses new requests, and runs and answers those in the queue.
Rule 7: the number of the requests in a call is limited, so that no caller waits long
    for it.
Rule 8: if only one process at a time can make calls, the thread waits for that first, and then
    takes the batches. So a call has all requests that gathered while other processes made theirs.

A batch has one owner at a time: the event loop until the batch is in the queue, then the
thread until the batch is answered. So no thread waits for a lock but that of the queue.
"""

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar, cast

from plantstore.errors import (
    BatchRefusedError,
    InternalError,
    OperationError,
    QueueFullError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.threads import THREADS, Threads

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT")

# How long the queue must be empty before the thread counts as idle.
IDLE_SECONDS: Final = 1.0

# An iteration of the event loop with so many requests makes a batch of its own. A smaller one also
# gets the requests of the next iteration: the thread could not use it before, since the event loop
# does not release the interpreter while it is busy.
ITERATION_REQUESTS_MIN: Final = 64

_STOPPING: Final = "The service is stopping; sending the plants again is safe"

# Does nothing; it may be entered any number of times.
NO_TURNSTILE: Final = contextlib.nullcontext()


class SharedFuture(asyncio.Future[ResultT]):
    """A future that several tasks await. None of them can cancel it.

    asyncio cancels a task by cancelling the future that the task awaits. This future
    refuses, so the task is cancelled later, when the future is done.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (the signature is asyncio's)
        """Refuse."""
        return False


@dataclass(slots=True, eq=False)
class Batch(Generic[RequestT, ResultT]):
    """Requests that are answered together.

    Attributes:
        requests: what the thread runs.
        results: the future that their callers await.
        is_from_one_caller: whether one caller submitted them all.

    """

    requests: list[RequestT]
    results: SharedFuture[Sequence[ResultT | RequestError]]
    is_from_one_caller: bool = False


def run_split_if_refused(
    run: Callable[[Sequence[RequestT]], Sequence[ResultT]],
    requests: Sequence[RequestT],
    explain: Callable[[Exception, int], ErrorT],
) -> list[ResultT | ErrorT]:
    """Run requests in one call. If it is refused, because of one of them, run its halves.

    Args:
        run: returns a result for each request.
        requests: what to run.
        explain: is called with the error of a call that is not repeated, and with the number of
            its requests. It returns the result of each of them, or raises.

    Returns:
        A result for each request.

    """
    try:
        return [*run(requests)]
    except (BatchRefusedError, OperationError) as error:
        if len(requests) <= 1:
            return [explain(error, 1) for _ in requests]
    except Exception as error:  # noqa: BLE001 (`explain` may raise it again)
        return [explain(error, len(requests))] * len(requests)
    middle = len(requests) // 2
    results = run_split_if_refused(run, requests[:middle], explain)
    return results + run_split_if_refused(run, requests[middle:], explain)


class Batcher(Generic[RequestT, ResultT]):
    """Runs requests in batches, on a separate thread.

    Its methods must be called on one event loop.

    Args:
        run: returns a result for each request; only the thread calls it.
        explain: takes the error of a call and the number of its requests, and returns
            the error or the result for their callers; only the thread calls it.
        name: of the thread.
        waiting_max: number of requests that may wait.
        batch_max: number of requests in one call.
        idle: called by the thread when there was no request for IDLE_SECONDS. It returns the time
            until its next call, in seconds. Its errors are ignored.
        turnstile: what the thread enters for each call, and for `idle`.
        threads: makes the thread and the queue.

    Attributes:
        last_single_at: the time of the event loop at which `submit` began the last batch.

    """

    def __init__(
        self,
        run: Callable[[Sequence[RequestT]], Sequence[ResultT]],
        explain: Callable[[Exception, int], RequestError | ResultT],
        *,
        name: str,
        waiting_max: int,
        batch_max: int,
        idle: Callable[[], float] = lambda: IDLE_SECONDS,
        turnstile: AbstractContextManager[object] = NO_TURNSTILE,
        threads: Threads = THREADS,
    ) -> None:
        self._run = run
        self._explain = explain
        self._waiting_max = waiting_max
        self._batch_max = batch_max
        self._idle = idle
        self._turnstile = turnstile
        self._threads = threads
        self._name = name
        self._queue: SimpleQueue[Batch[RequestT, ResultT] | None] = threads.queue()

        self._loop: asyncio.AbstractEventLoop
        self._open: Batch[RequestT, ResultT] | None = None
        self._accepts = False
        # Held by the caller of `submit_all` whose batch is in the queue.
        self._batch_lock = asyncio.Lock()
        self.last_single_at = -math.inf
        # Requests without a result yet: those of `submit`, and those of `submit_all`.
        self._waiting = 0
        self._waiting_together = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Accept requests, on the running event loop.

        At the end of the block, new requests are refused, and all others are answered.
        """
        self._loop = asyncio.get_running_loop()
        join = self._threads.start(self._serve, self._name)
        self._accepts = True
        try:
            yield
        finally:
            self._accepts = False
            self._hand_over()
            self._queue.put(None)
            await asyncio.to_thread(join)

    @property
    def waiting(self) -> int:
        """The number of requests that are not answered yet."""
        return self._waiting + self._waiting_together

    def is_full(self) -> bool:
        """Return whether a request would be refused now. Those of `submit_all` do not count."""
        return self._waiting >= self._waiting_max

    async def submit(self, request: RequestT) -> ResultT:
        """Return the result of a request.

        Raises:
            QueueFullError: the request was not run.
            StoreUnavailableError: the queue is closed; the request was not run.
            RequestError: the error that `explain` returned.

        """
        if not self._accepts:
            raise StoreUnavailableError("The service is stopping; nothing was done")
        if self.is_full():
            raise QueueFullError
        batch = self._open
        if batch is None:
            batch = self._open = Batch([], SharedFuture(loop=self._loop))
            self.last_single_at = self._loop.time()
            self._loop.call_soon(self._end_iteration)
        position = len(batch.requests)
        batch.requests.append(request)
        self._waiting += 1
        if position + 1 >= self._batch_max:
            self._hand_over()

        result = (await batch.results)[position]
        if isinstance(result, RequestError):
            raise result.again()
        return result

    async def submit_all(self, requests: Sequence[RequestT]) -> Sequence[ResultT | RequestError]:
        """Return the results of many requests, which are run together.

        The queue has one such batch at a time, however many callers there are, so that single
        requests never wait for more than one of them. If the batch is refused because of one of the
        requests, its halves are put into the queue one after the other. If the first one fails for
        another reason, the second one is not run, and has the same error. Requests that were not
        run because the queue is closed have STORE_UNAVAILABLE as their result.
        """
        if not requests:
            return []
        async with self._batch_lock:
            if not self._accepts:
                error = StoreUnavailableError(_STOPPING)
                return [error] * len(requests)
            together = cast("list[RequestT]", requests)  # nothing is added to it
            future: SharedFuture[Sequence[ResultT | RequestError]] = SharedFuture(loop=self._loop)
            batch = Batch(together, future, is_from_one_caller=True)
            self._waiting_together = len(requests)
            self._queue.put(batch)
            try:
                results = await batch.results
            finally:
                self._waiting_together = 0
        # As in `run_split_if_refused`, but other requests may be run between the halves.
        if len(requests) <= 1 or not isinstance(results[0], BatchRefusedError):
            return results
        middle = len(requests) // 2
        results = await self.submit_all(requests[:middle])
        failure = results[-1]
        if isinstance(failure, RequestError) and not isinstance(failure, BatchRefusedError):
            return [*results, *[failure] * (len(requests) - middle)]
        return [*results, *await self.submit_all(requests[middle:])]

    def _end_iteration(self) -> None:
        if self._open is not None and len(self._open.requests) < ITERATION_REQUESTS_MIN:
            self._loop.call_soon(self._hand_over)
        else:
            self._hand_over()

    def _hand_over(self) -> None:
        if self._open is not None:
            self._queue.put(self._open)
            self._open = None

    def _resolve(
        self,
        batches: list[Batch[RequestT, ResultT]],
        results: Sequence[ResultT | RequestError],
    ) -> None:
        """Answer the callers of one call, on the event loop."""
        start = 0
        for batch in batches:
            end = start + len(batch.requests)
            if not batch.is_from_one_caller:
                self._waiting -= len(batch.requests)
            batch.results.set_result(results[start:end])
            start = end

    # The methods below run on the thread.

    def _serve(self) -> None:
        batch = self._next()
        while batch is not None:
            with self._turnstile:
                batches, left = self._take(batch)
                self._call(batches)
            batch = left or self._next()

    def _take(
        self, first: Batch[RequestT, ResultT]
    ) -> tuple[list[Batch[RequestT, ResultT]], Batch[RequestT, ResultT] | None]:
        """Return the batches for one call, and one that is taken, but is for the next call.

        A batch from one caller has a call of its own.
        """
        taken, requests = [first], len(first.requests)
        while not (first.is_from_one_caller or self._queue.empty()):
            batch = self._queue.get()
            if batch is None:
                self._queue.put(None)  # the last one, for `_next`
                break
            requests += len(batch.requests)
            if batch.is_from_one_caller or requests > self._batch_max:
                return taken, batch
            taken.append(batch)
        return taken, None

    def _call(self, batches: list[Batch[RequestT, ResultT]]) -> None:
        try:
            requests = batches[0].requests
            if len(batches) > 1:
                requests = [request for batch in batches for request in batch.requests]
            results: Sequence[ResultT | RequestError]
            if batches[0].is_from_one_caller:
                results = self._run(requests)
            else:
                results = run_split_if_refused(self._run, requests, self._explained)
        except Exception as error:  # noqa: BLE001 (memory is exhausted; the thread must go on)
            many = sum(len(batch.requests) for batch in batches)
            if many > 1 and isinstance(error, BatchRefusedError):  # `submit_all` runs the halves
                results = [error.with_traceback(None)] * many
            else:
                results = [self._explained(error, many)] * many
        self._loop.call_soon_threadsafe(self._resolve, batches, results)

    def _next(self) -> Batch[RequestT, ResultT] | None:
        patience = IDLE_SECONDS  # at the start, too: a crash may have left work for `idle`
        while True:
            try:
                batch = self._queue.get(timeout=patience)
            except Empty:
                patience = IDLE_SECONDS
                with contextlib.suppress(Exception), self._turnstile:
                    patience = self._idle()
            else:
                return batch

    def _explained(self, error: Exception, requests: int) -> RequestError | ResultT:
        try:
            return self._explain(error, requests)
        except Exception:  # noqa: BLE001 (observers may raise; without this thread, callers would hang)
            return InternalError()
