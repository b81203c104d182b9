"""Many plants in one request: the bodies of `POST /plants.csv` and `POST /plants.ndjson`.

Theory of operation
-------------------
An import alternates between three steps: the event loop receives a piece of the body, a thread
parses it into batches of rows, and the writer stores each batch in a transaction. While a batch is
stored, the next piece is received and parsed. So an import holds at most two batches, a piece and
an incomplete row. If the client sends faster than the disk can store, the service makes it wait.

All imports share one thread, which parses one piece after the other, and they store one batch after
the other. So other requests share the interpreter with at most one import, however many there are.
Between two steps, an import ends if its client is gone or the service stops.

A dry run takes the same steps, but it looks up the stored plants of a batch instead of storing it.
So the writer has nothing to do with it.

Lists of changes (`plantstore.api.change_lists`) and undos (`plantstore.api.undos`) are imports in
this sense: their batches come from elsewhere, and are made in the same way.
"""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar, TypeVarTuple

import msgspec

from plantstore.api.auth import Authenticator, ConcurrencyLimit
from plantstore.api.change_set_field import recorded, set_of
from plantstore.api.parameters import (
    has_preference,
    invalid,
    json_response,
    parse_flag,
    read_query,
    require_no_coding,
    unsupported,
)
from plantstore.changes import AllInSet, Outcome, Result, SingleChange
from plantstore.commit.imports import (
    BATCH_ROWS_MAX,
    LISTED_ERRORS_MAX,
    TRIAL_BYTES_MAX,
    Batch,
    Conflict,
    Import,
    RowError,
    Trial,
)
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import (
    ClientGoneError,
    ErrorCode,
    OperationError,
    RequestError,
    StoreUnavailableError,
    quoted,
)
from plantstore.formats import FORMATS, Format
from plantstore.formats.rows import PIECE_BYTES
from plantstore.observe import Imported, Observer
from plantstore.server.interface import Request, Response, pieces
from plantstore.store import PlantStore
from plantstore.threads import THREADS, Threads

# Imports and undos that run at a time.
IMPORTS_MAX: Final = 32

# Rows of one transaction of an import or an undo, if there was a single change in the last minute;
# and of one lookup of a dry run. A commit of them takes some milliseconds, and so does a single
# change that waits for it. A service that is used for nothing else stores larger batches, which
# cost less for each row. The first single change may wait a tenth of a second for one of them.
SHARED_BATCH_ROWS_MAX: Final = 250
SHARED_SECONDS: Final = 60.0

# How fast a client must send, on average.
BYTES_PER_SECOND_MIN: Final = 1024

# How long the event loop and the writer wait for a thread that parses. Python's default, 5 ms, is
# longer than a commit: with it, 64 clients beside an import create 0.87 times as many plants. A
# shorter time costs single changes CPU time, so it is for imports only.
SWITCH_SECONDS: Final = 0.000_5

# What programs send that do not know the type of a file: curl sends the first one.
_UNSPECIFIC: Final = frozenset(
    {"application/x-www-form-urlencoded", "application/octet-stream", "text/plain"}
)

# A media type with parameters that contradict nothing (RFC 9110 §8.3.1, RFC 4180 §3).
_MEDIA_TYPE: Final = re.compile(
    r'([!-+\--:<-~]+)[ \t]*(?:;[ \t]*(?:(?:charset=(?:utf-?8|"utf-?8")|header=present)[ \t]*)?)*',
    re.IGNORECASE | re.ASCII,
)

_MADE: Final = (Outcome.STORED, Outcome.REPLACED, Outcome.DELETED)

ArgumentsT = TypeVarTuple("ArgumentsT")
ResultT = TypeVar("ResultT")


class Step(NamedTuple):
    """Changes that are made in one transaction.

    Attributes:
        changes: all of them.
        uses: of the token, that they are.
        settle: counts their outcomes, once they are on disk. A thread calls it.

    """

    changes: Sequence[SingleChange]
    uses: int
    settle: Callable[[Sequence[Result | RequestError]], None]


def _nothing() -> "asyncio.Future[None]":
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
        trial: decides its changes if it is a dry run.
        has_plants: whether its outcomes have stored plants.
        prepaid_uses: uses of the token that were counted before its first step: the request.
        has_made: whether changes of it were made.
        is_over: whether no further step may be made.
        storing: the last step that was begun. It is done when the step is made and counted.

    """

    request: Request
    scopes: Collection[str] = ()
    set_name: str | None = None
    trial: Trial | None = None
    has_plants: bool = False
    prepaid_uses: int = 1
    has_made: bool = False
    is_over: bool = False
    storing: "asyncio.Future[None]" = field(default_factory=_nothing)

    def require_client(self) -> None:
        """Check that the client is still connected.

        Raises:
            ClientGoneError: it is not.

        """
        if self.request.is_client_gone():
            raise ClientGoneError


class Imports:
    """Makes the changes of bodies, and of undos.

    Args:
        authenticator: knows the tokens.
        writer: stores the plants.
        reader: reads the numbers of the feed, and what dry runs need.
        patience_seconds: how long a client may send nothing.
        observe: is told of each import.
        release_memory: is called on the thread when the last import has ended.
        monotonic: a clock in seconds that is never set back.
        batch_rows_max: maximum number of rows in one transaction.
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
        patience_seconds: float,
        observe: Observer,
        release_memory: Callable[[], None] = lambda: None,
        monotonic: Callable[[], float] = time.monotonic,
        batch_rows_max: int = BATCH_ROWS_MAX,
        threads: Threads = THREADS,
    ) -> None:
        self._authenticator = authenticator
        self._writer = writer
        self._reader = reader
        self._patience_seconds = patience_seconds
        self._observe = observe
        self._monotonic = monotonic
        # Batches of half the rate can be stored beside other uses of the token.
        burst_max = authenticator.rate_limit.burst_max
        limit = batch_rows_max if burst_max is None else max(1, burst_max // 2)
        self._batch_rows_max = min(limit, batch_rows_max)
        self._release_memory = release_memory
        self._thread = threads.pool(1, "import")
        self._making = asyncio.Lock()
        self.limit = ConcurrencyLimit(IMPORTS_MAX, "imports and undos")
        self._default_switch_interval = sys.getswitchinterval()

    def of(self, suffix: str) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Return what stores the plants of a file that has this suffix."""
        return partial(self.run, FORMATS[suffix])

    async def run(self, form: Format, request: Request) -> Response:
        """Store the plants of a body, as `receive` does."""
        parameters = read_query(request, "on-conflict", "dry-run")
        conflict = _parse_conflict(parameters.get("on-conflict", "refuse"))
        scopes = {"plants:create"} | ({"plants:update"} if conflict is Conflict.REPLACE else set())
        begin = partial(Import, form.parser(), conflict)
        return await self.receive(request, form, begin, parameters, scopes=scopes)

    async def receive(
        self,
        request: Request,
        form: Format,
        begin: Callable[..., Import],
        parameters: dict[str, str],
        *,
        scopes: Collection[str],
        never: str = "deleted",
        has_plants: bool = False,
    ) -> Response:
        """Make the changes of a body: 200 with the counts of its rows, once all are on disk.

        They are among those of the feed from `Changes-Before` to `Changes-After`.

        Args:
            request: has the body.
            form: the format of the body, or one with the same media types.
            begin: begins an Import. Its arguments are what to do with errors, and how many to list.
            parameters: of the request.
            scopes: that its token needs.
            never: the member of RowCounts that is never counted, and so is not returned.
            has_plants: whether its outcomes have stored plants.

        Raises:
            RequestError: a parameter or the media type is refused, the token lacks a scope, the
                body is truncated, arrives too slowly or is not in the format, or the store failed.
                What was stored before stays.

        """
        trial = Trial() if parse_flag(parameters, "dry-run") else None
        _require_type(request, form)
        name = set_of(request)
        job = Job(request, scopes, None if trial else name, trial, has_plants)
        await self.admit(request, scopes)
        errors: list[RowError] = []
        run = begin(
            lambda error, _text: errors.append(error),
            batch_rows_max=self._batch_rows_max,
            errors_max=LISTED_ERRORS_MAX,
        )

        def ended() -> None:
            if trial is None:
                self._observe(Imported(form.media_type, msgspec.structs.asdict(run.counts)))

        try:
            fields = await self.make(job, self._parsed(job, run), ended)
        except (RequestError, asyncio.CancelledError) as error:
            # Only `error` may refer to it, since Python deletes this name. Otherwise the error and
            # this frame would refer to each other, and keep the rows until the next collection.
            raise _interrupted(error, 0 if trial else run.lines_stored_through) from None
        result: dict[str, object] = msgspec.structs.asdict(run.counts)
        del result[never]
        if trial:
            result["dry_run"] = True
        if has_preference(request, "return=minimal"):
            fields["Preference-Applied"] = "return=minimal"
        else:
            result["errors"] = errors
        if run.warnings:
            result["warnings"] = run.warnings
        return json_response(msgspec.json.encode(result), fields)

    async def make(
        self,
        job: Job,
        steps: AsyncGenerator[Step],
        ended: Callable[[], None] = lambda: None,
    ) -> dict[str, str]:
        """Make the changes of a request; return the fields of its response, once all are on disk.

        Args:
            job: the request.
            steps: its changes. The next ones are asked for while the last ones are made.
            ended: is called when the last one is made, or has failed.

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
            after = await self._last_number(job)
        except RequestError as error:
            if job.has_made:
                error.message = error.message.removesuffix("; nothing was done")
            raise
        finally:

            def leave(storing: asyncio.Future[None]) -> None:
                if not storing.cancelled():
                    storing.exception()  # asyncio would log an error that nobody retrieves
                self.limit.release(request.token)
                if not self.limit.running:
                    sys.setswitchinterval(self._default_switch_interval)
                    with contextlib.suppress(RuntimeError):  # the service has stopped
                        self._thread.submit(self._release_memory)
                ended()

            # A request that is cancelled again does not wait for its last step.
            job.storing.add_done_callback(leave)
        numbers = (("Changes-Before", before), ("Changes-After", after))
        fields = {name: str(number) for name, number in numbers if number is not None}
        return fields if job.set_name is None else fields | await recorded(request, self._reader)

    async def close(self) -> None:
        """Wait until the thread has ended."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _make_all(self, job: Job, steps: AsyncGenerator[Step]) -> None:
        """Make each step while the next one is read."""
        try:
            async with contextlib.aclosing(steps):
                async for step in steps:
                    await asyncio.shield(job.storing)
                    job.storing = asyncio.ensure_future(self._make(job, step))
            await asyncio.shield(job.storing)
        finally:
            # After an error, a step that waits for others is not made. One that the writer has got
            # is made, and counted.
            job.is_over = True
            await asyncio.wait([job.storing])

    async def _parsed(self, job: Job, run: Import) -> AsyncGenerator[Step]:
        """Receive and parse a body, and yield its batches."""
        body = job.request.body
        arrivals = pieces(body if isinstance(body, bytes) else body.as_stream())
        async with contextlib.aclosing(self._pieces(arrivals)) as cut:
            async for piece in cut:
                job.require_client()
                run.batch_rows_max = self.rows_now(job)
                for batch in await self.in_thread(_parse, run, piece):
                    yield Step(batch.changes, len(batch.rows), partial(run.settle, batch))

    async def _pieces(self, arrivals: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield a body in pieces of at most PIECE_BYTES, and an empty one at its end.

        A client has `patience_seconds` to send something. Each byte gives it more time, up to
        `patience_seconds` again: on average, BYTES_PER_SECOND_MIN bytes must arrive per second.
        Only the time in which the service waits for the client counts.

        Raises:
            RequestError: REQUEST_TIMEOUT, or BAD_REQUEST if the body is truncated.

        """
        left = self._patience_seconds
        while True:
            began = self._monotonic()
            try:
                async with asyncio.timeout(left):
                    arrived = await anext(arrivals, b"")
            except TimeoutError:
                raise RequestError(
                    ErrorCode.REQUEST_TIMEOUT,
                    f"The body must arrive with {BYTES_PER_SECOND_MIN} bytes per second",
                ) from None
            if not arrived:
                break
            earned = len(arrived) / BYTES_PER_SECOND_MIN
            left = min(self._patience_seconds, left - (self._monotonic() - began) + earned)
            for start in range(0, len(arrived), PIECE_BYTES):
                yield arrived[start : start + PIECE_BYTES]
        yield b""

    async def _make(self, job: Job, step: Step) -> None:
        """Make the changes of a step, and count them once they are on disk.

        Raises:
            RequestError: the token was revoked, or used too often; or the changes are not made.

        """
        changes = step.changes
        uses, job.prepaid_uses = step.uses - job.prepaid_uses, 0
        await self._spend(job, uses)
        await self.admit(job.request, job.scopes)
        async with self._making:
            if job.is_over:
                return
            job.require_client()
            if job.trial is None:
                in_set = changes if job.set_name is None else AllInSet(changes, job.set_name)
                outcomes = await self._writer.submit_all(in_set)
                job.has_made |= not all(isinstance(each, RequestError) for each in outcomes)
            else:
                stored = await self._reader.find_plants([change.id for change in changes])
                job.trial.bytes_max = TRIAL_BYTES_MAX // self.limit.running
                outcomes = await self.in_thread(job.trial.decide, changes, stored)
            self._give_back(job, step.uses, uses, outcomes)
            if job.has_plants:  # only one step at a time may hold that much memory
                await self.in_thread(step.settle, outcomes)
        if not job.has_plants:
            await self.in_thread(step.settle, outcomes)

    async def _spend(self, job: Job, uses: int) -> None:
        """Count uses of the token. Wait for its rate if this takes no longer than a client may."""
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
                return

    def _give_back(
        self, job: Job, uses: int, spent: int, outcomes: Sequence[Result | RequestError]
    ) -> None:
        """Count only the changes that are made, so that a file that is sent again gets further."""
        limit = self._authenticator.rate_limit
        if limit.burst_max is not None:
            made = 0 if job.trial is not None else sum(each in _MADE for each in outcomes)
            limit.give_back(job.request.token, min(spent, uses - made))

    async def admit(self, request: Request, scopes: Collection[str]) -> None:
        """Check that the token still has these scopes."""
        for scope in sorted(scopes):
            await self._authenticator.authorize(request, scope, uses=0)

    async def _last_number(self, job: Job) -> int | None:
        """Return the number of the last change; None if the feed is off, or for a dry run."""
        if job.trial is not None:
            return None
        try:
            return (await self._reader.read(None, PlantStore.read_changes, None, 1)).end
        except RequestError as error:
            if error.code is ErrorCode.FEED_OFF:
                return None
            raise

    def rows_now(self, job: Job) -> int:
        """Return the number of rows of the next batches."""
        since = asyncio.get_running_loop().time() - self._writer.last_single_at
        is_shared = since < SHARED_SECONDS or job.trial is not None
        return min(SHARED_BATCH_ROWS_MAX if is_shared else sys.maxsize, self._batch_rows_max)

    async def in_thread(
        self, function: Callable[[*ArgumentsT], ResultT], *args: *ArgumentsT
    ) -> ResultT:
        """Run a function on the thread of all imports."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


def _parse(run: Import, piece: bytes) -> list[Batch]:
    """Parse a piece of a body, or its end if it is empty; return the batches that are complete."""
    try:
        return run.feed(piece) if piece else run.finish()
    except OperationError as error:
        raise RequestError(ErrorCode.INVALID_PLANT, error.message) from None


def _parse_conflict(text: str) -> Conflict:
    try:
        return Conflict(text)
    except ValueError:
        message = f"`on-conflict` must be refuse, skip or replace, got {quoted(text)}"
        raise invalid(message) from None


def _require_type(request: Request, form: Format) -> None:
    """Refuse a body that is another kind of file. Its type may also be absent, or unspecific.

    Raises:
        RequestError: UNSUPPORTED_MEDIA_TYPE, if it is another kind, or has a content coding.

    """
    given = request.fields.get("content-type", "")
    match = _MEDIA_TYPE.fullmatch(given)
    known = {form.media_type, *form.other_media_types, *_UNSPECIFIC}
    if given and (match is None or match[1].lower() not in known):
        message = f"Content-Type must be {form.media_type} or absent, got {quoted(given)}"
        raise unsupported(message, [form.media_type])
    require_no_coding(request, [form.media_type])


def _interrupted(
    error: RequestError | asyncio.CancelledError, lines_stored_through: int
) -> RequestError:
    """Return the error of an import that ended early. The server cancels it when it stops."""
    if isinstance(error, asyncio.CancelledError):
        error = StoreUnavailableError("The service is stopping; sending the plants again is safe")
    error.lines_stored_through = lines_stored_through
    return error.with_traceback(None)
