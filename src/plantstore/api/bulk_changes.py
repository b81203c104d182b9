"""Many changes of one request: imports, lists of changes and undos.

Theory of operation
-------------------
The changes come in steps, each of which is one transaction. While a step is made, the next one is
read: an import parses the next piece of its file, an undo reads the next changes of its set. So a
request holds at most two steps.

All requests share one thread, which reads one step after the other, and they make one step after
the other. So others share the interpreter with at most one of them, however many there are. Between
two steps, a request ends if its client is gone or the service stops.

A dry run takes the same steps, but it looks up the stored plants of a step instead of changing
them. So the writer has nothing to do with it.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar, TypeVarTuple

from plantstore.api.auth import Authenticator
from plantstore.api.limits import ConcurrencyLimit
from plantstore.api.parameters import CHANGE_SET
from plantstore.changes import CHANGED, AllInSet, Result, SingleChange
from plantstore.commit.imports import BATCH_ROWS_MAX, DRY_RUN_BYTES_MAX, DryRun
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ClientGoneError, ErrorCode, RequestError
from plantstore.messages import Request
from plantstore.store import PlantStore
from plantstore.threads import THREADS, Threads

# A list of changes and an undo need one of these scopes at least, and those of their changes.
CHANGE_SCOPES: Final = "plants:create plants:update plants:delete"

# Imports and undos that run at a time.
IMPORTS_MAX: Final = 32

# Rows of one transaction of an import or an undo, if there was a single change in the last minute;
# and of one lookup of a dry run. A commit of them takes some milliseconds, and so does a single
# change that waits for it. A service that is used for nothing else stores larger batches, which
# cost less for each row. The first single change may wait a tenth of a second for one of them.
SHARED_BATCH_ROWS_MAX: Final = 250
SHARED_SECONDS: Final = 60.0

# How long the event loop and the writer wait for a thread that parses. Python's default, 5 ms, is
# longer than a commit: with it, 64 clients beside an import create 0.87 times as many plants. A
# shorter time costs single changes CPU time, so it is for imports only.
SWITCH_SECONDS: Final = 0.000_5

ArgumentsT = TypeVarTuple("ArgumentsT")
ResultT = TypeVar("ResultT")


class Step(NamedTuple):
    """Changes that are made in one transaction.

    Attributes:
        changes: all of them.
        uses: how many uses of the token they count as.
        settle: counts their outcomes, once they are on disk. A thread calls it.

    """

    changes: Sequence[SingleChange]
    uses: int
    settle: Callable[[Sequence[Result | RequestError]], None]


def _finished() -> "asyncio.Future[None]":
    """Return a future that is done."""
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


@dataclass(slots=True)
class Job:
    """The state of a request that makes many changes.

    Attributes:
        request: the request.
        scopes: that its token needs.
        set_name: the set of its changes; None if they are in none.
        dry_run: decides its changes if it is a dry run.
        outcomes_have_plants: whether they have stored plants.
        has_made: whether changes of it were made.
        is_over: whether no further step may be made.
        last_step: the last step that was begun. It is done when the step is made and counted.

    """

    request: Request
    scopes: Collection[str] = ()
    set_name: str | None = None
    dry_run: DryRun | None = None
    outcomes_have_plants: bool = False
    has_made: bool = False
    is_over: bool = False
    last_step: "asyncio.Future[None]" = field(default_factory=_finished)

    def require_client(self) -> None:
        """Check that the client is still connected.

        Raises:
            ClientGoneError: it is not.

        """
        if self.request.is_client_gone():
            raise ClientGoneError


class BulkChanges:
    """Makes the changes of requests with many of them.

    Args:
        authenticator: knows the tokens.
        writer: makes the changes.
        reader: reads the numbers of the feed, and what dry runs need.
        keeps_changes: whether this process was started so that changes are kept.
        patience_seconds: how long a request waits for the rate of its token.
        release_memory: is called on the thread when the last request has ended.
        batch_rows_max: maximum number of changes in one transaction.
        threads: makes the thread.

    Attributes:
        limit: of the requests that run at a time.

    """

    def __init__(
        self,
        authenticator: Authenticator,
        writer: GroupCommit,
        reader: GroupRead,
        *,
        keeps_changes: bool,
        patience_seconds: float,
        release_memory: Callable[[], None] = lambda: None,
        batch_rows_max: int = BATCH_ROWS_MAX,
        threads: Threads = THREADS,
    ) -> None:
        self._authenticator = authenticator
        self._writer = writer
        self._reader = reader
        self._keeps_changes = keeps_changes
        self._patience_seconds = patience_seconds
        # Batches of half the rate can be stored beside other uses of the token.
        burst_max = authenticator.rate_limit.burst_max
        limit = batch_rows_max if burst_max is None else max(1, burst_max // 2)
        self._batch_rows_max = min(limit, batch_rows_max)
        self._release_memory = release_memory
        self._thread = threads.pool(1, "import")
        self._making = asyncio.Lock()
        self.limit = ConcurrencyLimit(IMPORTS_MAX, "imports and undos")
        self._default_switch_interval = sys.getswitchinterval()

    async def make(
        self,
        job: Job,
        steps: AsyncGenerator[Step],
        on_end: Callable[[], None] = lambda: None,
    ) -> dict[str, str]:
        """Make the changes of a request; return the fields of its response, once all are on disk.

        Args:
            job: the request.
            steps: its changes. The next ones are asked for while the last ones are made.
            on_end: is called when the last one is made, or has failed.

        Raises:
            RequestError: there are too many such requests, a step cannot be read, or its changes
                are not made. What was made before stays.

        """
        request = job.request
        self.limit.acquire(request.token)
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            before = await self._last_number(job)
            await self._make_all(job, steps)
            after = None
            with contextlib.suppress(RequestError):  # the changes are made, if it is read or not
                after = await self._last_number(job)
        except RequestError as error:
            if job.has_made:
                error.message = error.message.removesuffix("; nothing was done")
            raise
        finally:
            # A request that is cancelled again does not wait for its last step.
            job.last_step.add_done_callback(partial(self._leave, job, on_end))
        set_name = job.set_name if self._keeps_changes else None
        fields = (("Changes-Before", before), ("Changes-After", after), (CHANGE_SET, set_name))
        return {name: str(value) for name, value in fields if value is not None}

    def _leave(
        self, job: Job, on_end: Callable[[], None], last_step: "asyncio.Future[None]"
    ) -> None:
        """Make room for another request. The last step of this one is over."""
        if not last_step.cancelled():
            last_step.exception()  # asyncio would log an error that nobody retrieves
        self.limit.release(job.request.token)
        if not self.limit.running:
            sys.setswitchinterval(self._default_switch_interval)
            with contextlib.suppress(RuntimeError):  # the service has stopped
                self._thread.submit(self._release_memory)
        on_end()

    async def close(self) -> None:
        """Wait until the thread has ended."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _make_all(self, job: Job, steps: AsyncGenerator[Step]) -> None:
        """Make each step while the next one is read."""
        prepaid_uses = 1  # the request was counted as a use of the token
        try:
            async with contextlib.aclosing(steps):
                async for step in steps:
                    await asyncio.shield(job.last_step)
                    made = self._make(job, step, step.uses - prepaid_uses)
                    job.last_step = asyncio.ensure_future(made)
                    prepaid_uses = 0
            await asyncio.shield(job.last_step)
        finally:
            # After an error, a step that waits for others is not made. One that the writer has got
            # is made, and counted.
            job.is_over = True
            await asyncio.wait([job.last_step])

    async def _make(self, job: Job, step: Step, uses: int) -> None:
        """Make the changes of a step, and count them once they are on disk.

        `uses` are the uses of the token that were not counted before.

        Raises:
            RequestError: the token was revoked, or used too often; or the changes are not made.

        """
        changes = step.changes
        outcomes: Sequence[Result | RequestError] = ()
        if not await self._spend(job, uses):
            return
        try:
            await self.admit(job.request, job.scopes)
            async with self._making:
                if job.is_over:
                    return
                job.require_client()
                if job.dry_run is None:
                    in_set = changes if job.set_name is None else AllInSet(changes, job.set_name)
                    outcomes = await self._writer.submit_all(in_set)
                    job.has_made |= not all(isinstance(each, RequestError) for each in outcomes)
                else:
                    stored = await self._reader.find_plants([change.id for change in changes])
                    job.dry_run.bytes_max = DRY_RUN_BYTES_MAX // self.limit.running
                    outcomes = await self.in_thread(job.dry_run.decide, changes, stored)
                if job.outcomes_have_plants:  # only one step at a time may hold that much memory
                    await self.in_thread(step.settle, outcomes)
        finally:
            self._give_back(job, step.uses, uses, outcomes)
        if not job.outcomes_have_plants:
            await self.in_thread(step.settle, outcomes)

    async def _spend(self, job: Job, uses: int) -> bool:
        """Count uses of the token. Wait for its rate if this takes no longer than a client may.

        Return whether they are counted. They are not if the job is over.
        """
        limit = self._authenticator.rate_limit
        while not job.is_over:
            job.require_client()
            try:
                limit.spend(job.request.token, uses)
            except RequestError as error:
                seconds = int(error.headers["Retry-After"])
                if seconds > self._patience_seconds:
                    raise
                await asyncio.sleep(seconds)
            else:
                return True
        return False

    def _give_back(
        self, job: Job, uses: int, spent: int, outcomes: Sequence[Result | RequestError]
    ) -> None:
        """Count only the changes that are made, so that a file that is sent again gets further."""
        limit = self._authenticator.rate_limit
        if limit.burst_max is not None:
            made = 0 if job.dry_run is not None else sum(each in CHANGED for each in outcomes)
            limit.give_back(job.request.token, min(spent, uses - made))

    async def admit(self, request: Request, scopes: Collection[str]) -> None:
        """Check that the token still has these scopes."""
        for scope in sorted(scopes):
            await self._authenticator.authorize(request, scope, uses=0)

    async def _last_number(self, job: Job) -> int | None:
        """Return the number of the last change; None if the feed is off, or for a dry run."""
        if job.dry_run is not None:
            return None
        try:
            return (await self._reader.read(job.request, PlantStore.read_changes, None, 1)).end
        except RequestError as error:
            if error.code is ErrorCode.FEED_OFF:
                return None
            raise

    def rows_now(self, job: Job) -> int:
        """Return the number of rows of the next batches."""
        since = asyncio.get_running_loop().time() - self._writer.last_single_at
        is_shared = since < SHARED_SECONDS or job.dry_run is not None
        return min(SHARED_BATCH_ROWS_MAX if is_shared else sys.maxsize, self._batch_rows_max)

    async def in_thread(
        self, function: Callable[[*ArgumentsT], ResultT], *args: *ArgumentsT
    ) -> ResultT:
        """Run a function on the thread of all imports."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
