"""Group commit: many creates, one durable transaction.

Theory of operation
-------------------
A commit waits for the disk, and the disk takes as long for a hundred plants as
for one. So one thread owns the writing, and stores whatever waits together:

    event loop: submit, submit, submit --batch--> queue --> writer: commit
         ^                                                      |
         +---------------- one wake-up for them all ------------+

The event loop gathers the plants of one turn of its own into a batch, and hands
the batch over at the end of that turn. The writer takes every batch that waits,
up to a bound, stores them in one transaction, and then wakes the event loop once
to answer all their callers. It never waits for a batch to fill: batches form
while the previous commit runs, so they are small when the service is idle and
large when it is busy.

Rule 1: no caller hears "stored" before the commit that holds its plant. A batch
    is answered in one place, with what the store returned for it.
Rule 2: a caller that goes away loses its answer, never its neighbours'. All
    callers of a batch await one future, and that future cannot be cancelled.
Rule 3: a full queue refuses at once; waiting longer would only hide overload.
    Plants count from `submit` to their answer, in number and in characters.
Rule 4: one bad plant never fails its neighbours. A conflict is an outcome, not
    an error. If a transaction meets an error that nobody foresaw, its plants are
    tried again one by one, and only those that bring it about fail.
Rule 5: a failed commit fails its callers and nothing else. The thread goes on
    with the next batch, and succeeds when the cause is gone. Nothing ends the
    thread but `close`.
Rule 6: closing refuses what comes, and commits and answers what came.

A batch has one owner at a time: the event loop until it is put into the queue,
the writer until it is answered. Hence there are no locks but the queue's.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Final, TypeAlias

from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.observe import CommitFailed, Observer, WriterStarted, WriterStopped
from plantstore.plants import NewPlant
from plantstore.store import Outcome, Store

Result: TypeAlias = Outcome | RequestError

_NOT_STORED: Final = RequestError(ErrorCode.INTERNAL, "The plant could not be stored")


class _Answer(asyncio.Future[Sequence[Result]]):
    """What all callers of a batch await; it does not let one of them cancel it.

    A cancelled task asks the future that it awaits to cancel. Told no, it takes
    its cancellation up when the future is done: one commit later.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (the signature is asyncio's)
        return False


class _Batch:
    """Plants that are answered together, and what their callers await."""

    __slots__ = ("answer", "characters", "plants")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.plants: list[NewPlant] = []
        self.characters = 0
        self.answer = _Answer(loop=loop)


class GroupCommit:
    """Stores plants durably, many at a time. Its methods belong to one event loop.

    Args:
        store: where the plants go; `create_plants` is called by the writer's
            thread alone. The caller closes it, after this.
        queue_plants_max: plants that may wait.
        queue_characters_max: characters of their names and tags that may wait;
            the plant that reaches it is still taken.
        batch_plants_max: plants in one transaction.
        observe: is told what happens, on either thread.

    """

    def __init__(
        self,
        store: Store,
        *,
        queue_plants_max: int,
        queue_characters_max: int,
        batch_plants_max: int,
        observe: Observer,
    ) -> None:
        self._store = store
        self._queue_plants_max = queue_plants_max
        self._queue_characters_max = queue_characters_max
        self._batch_plants_max = batch_plants_max
        self._observe = observe

        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._queue: SimpleQueue[_Batch | None] = SimpleQueue()
        self._open: _Batch | None = None
        self._accepts = False
        self._waiting_plants = 0
        self._waiting_characters = 0

    def start(self) -> None:
        """Begin to accept plants, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        self._accepts = True
        self._observe(WriterStarted())

    async def submit(self, plant: NewPlant) -> Outcome:
        """Store a plant, and return when its fate is on disk.

        Raises:
            RequestError: OVERLOADED when the queue is full, and nothing is
                stored; STORE_UNAVAILABLE when the commit failed, or the service
                is stopping; INTERNAL when the store met an unforeseen error.

        """
        if not self._accepts:
            raise StoreUnavailableError("The service is stopping; the plant was not stored")
        if (
            self._waiting_plants >= self._queue_plants_max
            or self._waiting_characters >= self._queue_characters_max
        ):
            raise RequestError(
                ErrorCode.OVERLOADED, "Too many plants wait to be stored; this one was not stored"
            )
        batch = self._open
        if batch is None:
            batch = self._open = _Batch(self._loop)
            self._loop.call_soon(self._hand_over)
        position = len(batch.plants)
        characters = len(plant.name) + len(plant.tag or "")
        batch.plants.append(plant)
        batch.characters += characters
        self._waiting_plants += 1
        self._waiting_characters += characters
        if position + 1 >= self._batch_plants_max:
            self._hand_over()

        result = (await batch.answer)[position]
        if isinstance(result, RequestError):
            # A new one for each caller: each raise adds its own trace.
            raise RequestError(result.code, result.message)
        return result

    async def close(self) -> None:
        """Refuse what comes from now on; return when all that came is committed."""
        if not self._accepts:
            return
        self._accepts = False
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        self._observe(WriterStopped())

    def _hand_over(self) -> None:
        if self._open is not None:
            self._queue.put(self._open)
            self._open = None

    def _answer(self, batches: list[_Batch], results: Sequence[Result]) -> None:
        """Answer the callers of a transaction, on the event loop."""
        start = 0
        for batch in batches:
            end = start + len(batch.plants)
            self._waiting_plants -= len(batch.plants)
            self._waiting_characters -= batch.characters
            batch.answer.set_result(results[start:end])
            start = end

    # From here on: the writer's thread.

    def _run(self) -> None:
        for batches in self._transactions():
            results: Sequence[Result]
            try:
                results = self._commit([plant for batch in batches for plant in batch.plants])
            except Exception:  # noqa: BLE001 (an observer's, say; without this thread, all would hang)
                results = [_NOT_STORED] * sum(len(batch.plants) for batch in batches)
            self._loop.call_soon_threadsafe(self._answer, batches, results)

    def _transactions(self) -> Iterator[list[_Batch]]:
        """Yield the batches of one transaction after the other, until closed."""
        taken: list[_Batch] = []
        plants = 0
        while True:
            if taken and self._queue.empty():
                yield taken
                taken, plants = [], 0
            batch = self._queue.get()
            if taken and (batch is None or plants + len(batch.plants) > self._batch_plants_max):
                yield taken
                taken, plants = [], 0
            if batch is None:
                return
            taken.append(batch)
            plants += len(batch.plants)

    def _commit(self, plants: Sequence[NewPlant]) -> Sequence[Result]:
        try:
            return self._store.create_plants(plants)
        except StoreUnavailableError as error:
            self._observe(CommitFailed(error, len(plants)))
            failure: RequestError = StoreUnavailableError(
                f"{error.message}; the plant may or may not be stored, and sending it again is safe"
            )
        except Exception as error:  # noqa: BLE001 (rule 4)
            if len(plants) > 1:
                return [result for plant in plants for result in self._commit([plant])]
            self._observe(CommitFailed(error, len(plants)))
            failure = _NOT_STORED
        return [failure] * len(plants)
