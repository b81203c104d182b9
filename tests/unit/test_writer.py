"""The rules of the group commit, with stores that block or fail."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from plantstore.changes import Change, Deletion, Outcome, Replacement, Result
from plantstore.commit import batcher
from plantstore.commit.writer import GroupCommit
from plantstore.errors import BatchRefusedError, ErrorCode, RequestError, StoreUnavailableError
from plantstore.observe import (
    CommitFailed,
    Committed,
    Event,
    ignore,
)
from plantstore.plants import NewPlant, Plant
from plantstore.store import MAINTENANCE_SECONDS
from plantstore.threads import Threads
from support.stores import Gate, MemoryStore, WatchedStore


class GatedStore(WatchedStore):
    """Blocks each commit until the test releases it."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.gate = self.before["apply_changes"] = Gate()

    @property
    def batches(self) -> list[list[Change]]:
        return [list(changes) for [changes] in self.gate.asked]


def failing(error: Exception) -> WatchedStore:
    """Return a store that raises an error for each batch that has the plant with the id 13."""

    def fail(changes: Sequence[Change]) -> None:
        if any(change.id == 13 for change in changes):
            raise error

    store = WatchedStore(MemoryStore())
    store.before["apply_changes"] = fail
    return store


def run(
    store: MemoryStore | WatchedStore,
    test: Callable[[GroupCommit], Coroutine[Any, Any, None]],
    **options: Any,
) -> list[Event]:
    """Run a test with a writer; return the events that it reported."""
    events: list[Event] = []
    options.setdefault("observe", events.append)
    options.setdefault("waiting_max", 1000)
    writer = GroupCommit(store, **options)

    async def main() -> None:
        async with writer.running():
            try:
                await test(writer)
            finally:  # a test that failed may have left a commit blocked
                if isinstance(store, GatedStore):
                    store.gate.let_go.release(1000)

    asyncio.run(asyncio.wait_for(main(), 30))
    return events


def plant(id_: int, name: str = "a") -> NewPlant:
    return NewPlant(id_, name)


async def submitted(writer: GroupCommit, *plants: NewPlant) -> list[asyncio.Task[Result]]:
    """Submit plants in one iteration of the loop, and wait until the writer has their batch."""
    tasks = [asyncio.create_task(writer.submit(one)) for one in plants]
    await asyncio.sleep(0)  # the tasks run up to their await
    await asyncio.sleep(0)  # the batch also gets the changes of this turn
    await asyncio.sleep(0)  # the writer gets the batch
    return tasks


@pytest.mark.parametrize("at_once", [True, False])
def test_a_transaction_has_at_most_batch_max_changes(at_once: bool) -> None:  # noqa: FBT001
    store = GatedStore()
    plants = [plant(id_) for id_ in range(10)]

    async def test(writer: GroupCommit) -> None:
        tasks = await submitted(writer, plant(100))
        await asyncio.to_thread(store.gate.entered.acquire)
        if at_once:
            tasks += await submitted(writer, *plants)
        else:
            for one in plants:
                tasks += await submitted(writer, one)
        store.gate.let_go.release(10)
        await asyncio.gather(*tasks)

    run(store, test, batch_max=4)

    assert [len(batch) for batch in store.batches] == [1, 4, 4, 2]
    assert [one for batch in store.batches[1:] for one in batch] == plants


def test_a_writer_changes_the_store_and_tidies_it_up_until_it_is_done_in_its_turns() -> None:
    turnstile = threading.Lock()
    calls: list[bool] = []
    is_maintained = threading.Event()

    class Store(MemoryStore):
        def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
            assert turnstile.locked()
            return super().apply_changes(changes)

        def maintain(self) -> float:
            calls.append(turnstile.locked())
            if len(calls) < 3:
                return 0
            is_maintained.set()
            return MAINTENANCE_SECONDS

    async def test(writer: GroupCommit) -> None:
        await writer.submit(plant(1))
        assert await asyncio.to_thread(is_maintained.wait, 30)

    run(Store(), test, turnstile=turnstile)

    assert calls == [True] * 3


class Quiet(Threads):
    """Threads whose queue is empty three times, and then waits. It keeps the times to wait."""

    def __init__(self) -> None:
        self.waits: list[float | None] = []
        self.is_waiting = threading.Event()

    def queue(self) -> "SimpleQueue[Any]":
        threads = self

        class Recorded(SimpleQueue[Any]):
            def get(self, block: bool = True, timeout: float | None = None) -> Any:  # noqa: FBT001, FBT002 (its)
                threads.waits.append(timeout)
                if len(threads.waits) < 4:
                    raise Empty
                threads.is_waiting.set()
                return super().get(block)

        return Recorded()


def test_after_a_maintenance_that_fails_an_idle_writer_waits_before_the_next_one() -> None:
    results: list[float | StoreUnavailableError] = [0, StoreUnavailableError("It failed"), 7]
    threads = Quiet()

    class Store(MemoryStore):
        def maintain(self) -> float:
            result = results.pop(0)
            if isinstance(result, StoreUnavailableError):
                raise result
            return result

    async def main() -> None:
        async with GroupCommit(Store(), observe=ignore, threads=threads).running():
            assert await asyncio.to_thread(threads.is_waiting.wait, 30)

    asyncio.run(main())

    assert threads.waits == [batcher.IDLE_SECONDS, 0, batcher.IDLE_SECONDS, 7]


def test_a_failure_is_remembered_until_a_change_is_committed() -> None:
    error = StoreUnavailableError("The database cannot be written: disk full")
    store = failing(error)

    async def test(writer: GroupCommit) -> None:
        failures = [writer.failure]
        for change in (plant(13), Deletion(404), plant(1)):  # no plant has the id 404
            await asyncio.gather(writer.submit(change), return_exceptions=True)
            failures.append(writer.failure)
        assert failures == [None, error, error, None]
        assert writer.failed_at == 100.0

    run(store, test, monotonic=lambda: 100.0)


def test_a_full_queue_refuses_changes_at_once_and_accepts_them_when_there_is_room() -> None:
    store = GatedStore()

    async def test(writer: GroupCommit) -> None:
        tasks = await submitted(writer, plant(1), plant(2), plant(3))
        await asyncio.to_thread(store.gate.entered.acquire)
        with pytest.raises(RequestError) as refused:
            await writer.submit(plant(4))
        assert refused.value.code is ErrorCode.OVERLOADED
        store.gate.let_go.release(2)
        await asyncio.gather(*tasks)
        assert await writer.submit(plant(5)) is Outcome.STORED

    run(store, test, waiting_max=3)

    assert sorted(store.plants) == [1, 2, 3, 5]


def test_batches_of_imports_take_turns_and_take_no_room_from_single_changes() -> None:
    store = GatedStore()

    async def test(writer: GroupCommit) -> None:
        many = [
            asyncio.create_task(writer.submit_all([plant(id_), plant(id_ + 1)]))
            for id_ in (1, 3, 5)
        ]
        await asyncio.to_thread(store.gate.entered.acquire)
        one = await submitted(writer, plant(7))
        assert writer.waiting == 3
        store.gate.let_go.release(4)
        assert await asyncio.gather(*one) == [Outcome.STORED]
        assert await asyncio.gather(*many) == [[Outcome.STORED] * 2] * 3
        assert writer.waiting == 0
        store.gate.let_go.release(2)
        more = await submitted(writer, plant(8), plant(9), plant(10))
        assert isinstance(more[2].exception(), RequestError), "imports made no room either"
        assert await asyncio.gather(*more[:2]) == [Outcome.STORED] * 2

    run(store, test, waiting_max=2)

    ids = [change.id for batch in store.batches for change in batch]
    assert ids == [1, 2, 7, 3, 4, 5, 6, 8, 9]


def test_single_changes_are_stored_between_the_parts_of_a_batch_that_is_refused() -> None:
    store = GatedStore()

    def refuse(changes: Sequence[Change]) -> None:
        store.gate(changes)
        if any(isinstance(one, NewPlant) and one.name == "bad" for one in changes):
            raise BatchRefusedError("refused by a trigger")

    store.before["apply_changes"] = refuse
    plants = [plant(id_, "bad" if id_ in (1, 4) else "a") for id_ in range(1, 7)]

    async def test(writer: GroupCommit) -> None:
        many = asyncio.create_task(writer.submit_all(plants))
        await asyncio.to_thread(store.gate.entered.acquire)
        [single] = await submitted(writer, plant(100))
        store.gate.let_go.release(10)
        assert await single is Outcome.STORED
        outcomes = await many
        refused = [id_ for id_, one in enumerate(outcomes, 1) if one is not Outcome.STORED]
        assert refused == [1, 4]
        assert all(isinstance(outcomes[id_ - 1], BatchRefusedError) for id_ in refused)

    events = run(store, test)

    ids = [[change.id for change in batch] for batch in store.batches]
    assert ids == [[1, 2, 3, 4, 5, 6], [100], [1, 2, 3], [1], [2, 3], [4, 5, 6], [4], [5, 6]]
    assert sum(isinstance(event, CommitFailed) for event in events) == 2


def test_a_cancelled_caller_does_not_affect_the_other_callers_of_its_batch() -> None:
    store = GatedStore()

    async def test(writer: GroupCommit) -> None:
        leaver, stayer = await submitted(writer, plant(1), plant(2))
        await asyncio.to_thread(store.gate.entered.acquire)
        leaver.cancel()
        await asyncio.sleep(0)
        store.gate.let_go.release()
        assert await stayer is Outcome.STORED
        with pytest.raises(asyncio.CancelledError):
            await leaver

    run(store, test)

    assert sorted(store.plants) == [1, 2]


def test_each_caller_of_a_shared_transaction_gets_its_own_outcome() -> None:
    store = GatedStore()

    async def test(writer: GroupCommit) -> None:
        tasks = await submitted(writer, plant(1))
        await asyncio.to_thread(store.gate.entered.acquire)
        tasks += await submitted(writer, plant(1), plant(1, "other"), NewPlant(1, "a", ""))
        tasks += await submitted(writer, plant(2))
        store.gate.let_go.release(2)
        assert await asyncio.gather(*tasks) == [
            *(Outcome.STORED, Outcome.ALREADY_STORED, Outcome.ID_TAKEN, Outcome.ID_TAKEN),
            Outcome.STORED,
        ]

    run(store, test)

    assert len(store.batches) == 2
    assert store.plants == {1: plant(1), 2: plant(2)}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoreUnavailableError("The database is full"), ErrorCode.STORE_UNAVAILABLE),
        (MemoryError(), ErrorCode.OVERLOADED),
        (ZeroDivisionError(), ErrorCode.INTERNAL),
    ],
)
def test_a_failed_commit_fails_its_callers_without_a_retry_and_the_next_one_succeeds(
    error: Exception, code: ErrorCode
) -> None:
    store = failing(error)

    async def test(writer: GroupCommit) -> None:
        failed = await asyncio.gather(
            *await submitted(writer, plant(13), plant(1)), return_exceptions=True
        )
        assert [getattr(one, "code", None) for one in failed] == [code] * 2
        assert failed[0] is not failed[1]
        assert "sending it again is safe" in str(failed[0])
        assert store.plants == {}
        store.repair()
        assert await writer.submit(plant(13)) is Outcome.STORED

    events = run(store, test)

    assert CommitFailed(error, changes=2) in events


def test_a_refused_plant_fails_alone_and_nothing_was_done() -> None:
    error = BatchRefusedError("The database cannot be written", "the rule of a trigger")
    store = failing(error)

    async def test(writer: GroupCommit) -> None:
        good, bad = await submitted(writer, plant(1), plant(13))
        assert await good is Outcome.STORED
        with pytest.raises(RequestError) as failed:
            await bad
        assert failed.value.message == "The database cannot be written; nothing was done"
        assert writer.failure is None

    events = run(store, test)

    told = [event for event in events if not isinstance(event, Committed)]
    assert told == [CommitFailed(error, changes=1)]
    committed = [event.outcomes for event in events if isinstance(event, Committed)]
    assert committed == [[Outcome.STORED]]


def test_after_a_failure_of_one_part_no_later_part_of_a_batch_is_stored() -> None:
    """An import is stored in order, so that it can go on after the last stored row."""

    class Store(MemoryStore):
        """Refuses batches of several plants, and fails for the plant 1."""

        def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
            if len(changes) > 1:
                raise BatchRefusedError("The database cannot be written")
            if changes[0].id == 1:
                raise StoreUnavailableError("The database is full")
            return super().apply_changes(changes)

    store = Store()

    async def test(writer: GroupCommit) -> None:
        results = await writer.submit_all([plant(id_) for id_ in range(4)])
        codes = [getattr(one, "code", None) for one in results]
        assert codes == [None] + [ErrorCode.STORE_UNAVAILABLE] * 3

    run(store, test)

    assert [*store.plants] == [0]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("raises", ["store", "observer"])
def test_a_batch_that_may_be_committed_is_not_made_again_and_its_callers_are_told(
    raises: str,
    together: bool,  # noqa: FBT001
) -> None:
    batches: list[Sequence[Change]] = []

    class Store(MemoryStore):
        """Makes the changes, and may then fail."""

        def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
            batches.append(list(changes))
            outcomes = super().apply_changes(changes)
            if raises == "store":
                raise ZeroDivisionError
            return outcomes

    def observe(event: Event) -> None:
        if isinstance(event, Committed):
            raise ZeroDivisionError

    # Made again, the first one would be refused, because of the second.
    changes: list[Change] = [plant(5), Replacement(5, Plant("b"))]

    async def test(writer: GroupCommit) -> None:
        if together:
            results: Sequence[object] = await writer.submit_all(changes)
        else:
            calls = [asyncio.create_task(writer.submit(one)) for one in changes]
            results = await asyncio.gather(*calls, return_exceptions=True)
        assert [getattr(one, "code", None) for one in results] == [ErrorCode.INTERNAL] * 2
        assert all("may or may not be made" in str(one) for one in results)

    run(Store(), test, observe=observe)

    assert batches == [changes]


def test_an_observer_that_raises_does_not_stop_the_writer() -> None:
    store = failing(ZeroDivisionError())

    def observe(event: Event) -> None:
        if isinstance(event, CommitFailed):
            raise RuntimeError  # noqa: TRY004 (an observer that misbehaves)

    async def test(writer: GroupCommit) -> None:
        with pytest.raises(RequestError) as failed:
            await writer.submit(plant(13))
        assert failed.value.code is ErrorCode.INTERNAL
        assert await writer.submit(plant(1)) is Outcome.STORED

    run(store, test, observe=observe)


def test_the_end_stores_the_submitted_changes_and_refuses_new_ones() -> None:
    store = GatedStore()

    async def main() -> None:
        writer = GroupCommit(store, observe=lambda _: None)
        async with writer.running():
            tasks = await submitted(writer, plant(1))
            await asyncio.to_thread(store.gate.entered.acquire)
            tasks += await submitted(writer, plant(2))
            tasks.append(asyncio.create_task(writer.submit(plant(3))))
            late = asyncio.create_task(_refused(writer))
            await asyncio.sleep(0)  # the writer does not have the batch of plant 3 yet
        assert await asyncio.gather(*tasks) == [Outcome.STORED] * 3
        await late

    async def _refused(writer: GroupCommit) -> None:
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError):
            await writer.submit(plant(4))
        store.gate.let_go.release(3)

    asyncio.run(asyncio.wait_for(main(), 30))

    assert sorted(store.plants) == [1, 2, 3]
