"""Many plants in one request: the bodies of `POST /plants.csv` and `POST /plants.ndjson`.

Theory of operation
-------------------
An import alternates between three steps: the event loop receives a piece of the body, a thread
parses it into batches of rows, and the writer stores each batch in a transaction. While a batch is
stored, the next piece is received and parsed. So an import holds at most two batches, a piece and
an incomplete row. If the client sends faster than the disk can store, the service makes it wait.

All imports share one thread, which parses their pieces in turn, and they store their batches in
turn. So other requests share the interpreter with at most one import, however many there are.
Between two steps, an import ends if its client is gone or the service stops.

A dry run takes the same steps, but it looks up the stored plants of a batch instead of storing it.
So it takes no turn of the writer.
"""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, TypeVar, TypeVarTuple

import msgspec

from plantstore.api.auth import Authenticator, ConcurrencyLimit
from plantstore.api.change_set_field import all_in_set, recorded, set_of
from plantstore.api.parameters import (
    has_preference,
    invalid,
    json_response,
    parse_flag,
    read_query,
    require_no_coding,
    unsupported,
)
from plantstore.commit.imports import (
    BATCH_ROWS_MAX,
    LISTED_ERRORS_MAX,
    TRIAL_BYTES_MAX,
    Batch,
    ChangesResult,
    Conflict,
    Import,
    ImportResult,
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

# Imports that run at a time.
IMPORTS_MAX: Final = 32

# Rows of one transaction beside single changes, and for so long after one; and of one lookup of a
# dry run. It takes a few milliseconds.
SHARED_BATCH_ROWS_MAX: Final = 500
SHARED_SECONDS: Final = 1.0

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

ArgumentsT = TypeVarTuple("ArgumentsT")
ResultT = TypeVar("ResultT")


class Kind(NamedTuple):
    """A kind of import.

    Attributes:
        form: the format of its body, or one with the same media types.
        begin: begins an Import. Its arguments are what to do with errors, and how many to list.
        scopes: that its token needs.
        result: its response.
        has_plants: whether its outcomes have stored plants.

    """

    form: Format
    begin: Callable[..., Import]
    scopes: Sequence[str]
    result: type[ImportResult | ChangesResult] = ImportResult
    has_plants: bool = False


class Imports:
    """Stores the plants of bodies.

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
        self._turn = asyncio.Lock()
        self._limit = ConcurrencyLimit(IMPORTS_MAX, "imports")
        self._default_switch_interval = sys.getswitchinterval()

    def of(self, suffix: str) -> Callable[[Request], Coroutine[None, None, Response]]:
        """Return what stores the plants of a file that has this suffix."""
        return partial(self.run, FORMATS[suffix])

    async def run(self, form: Format, request: Request) -> Response:
        """Store the plants of a body, as `receive` does."""
        parameters = read_query(request, "on-conflict", "dry-run")
        conflict = _parse_conflict(parameters.get("on-conflict", "refuse"))
        scopes = ["plants:update"] if conflict is Conflict.REPLACE else []
        kind = Kind(form, partial(Import, form.parser(), conflict), [*scopes, "plants:create"])
        return await self.receive(kind, request, parameters)

    async def receive(self, kind: Kind, request: Request, parameters: dict[str, str]) -> Response:
        """Make the changes of a body: 200 with the counts of its rows, once all are on disk.

        They are among those of the feed from `Changes-Before` to `Changes-After`.

        Raises:
            RequestError: a parameter or the media type is refused, the token lacks a scope, the
                body is truncated, arrives too slowly or is not in the format, or the store failed.
                What was stored before stays.

        """
        trial = Trial() if parse_flag(parameters, "dry-run") else None
        form = kind.form
        _require_type(request, form)
        set_of(request)  # refuse a malformed name now
        await self._admit(request, kind.scopes)
        errors: list[RowError] = []
        run = kind.begin(
            lambda error, _text: errors.append(error),
            batch_rows_max=self._batch_rows_max,
            errors_max=LISTED_ERRORS_MAX,
        )
        upload = _Upload(request, run, kind, trial)
        self._limit.acquire(request.token)
        sys.setswitchinterval(SWITCH_SECONDS)
        try:
            before = await self._last_number(upload)
            await self._store_all(upload)
            after = await self._last_number(upload)
        except (RequestError, asyncio.CancelledError) as error:
            # Only `error` may refer to it, since Python deletes this name. Otherwise the error and
            # this frame would refer to each other, and keep the rows until the next collection.
            raise _interrupted(error, 0 if trial else run.lines_stored_through) from None
        finally:

            def leave(storing: asyncio.Future[None]) -> None:
                if not storing.cancelled():
                    storing.exception()  # asyncio would log an error that nobody retrieves
                self._limit.release(request.token)
                if not self._limit.running:
                    sys.setswitchinterval(self._default_switch_interval)
                    with contextlib.suppress(RuntimeError):  # the service has stopped
                        self._thread.submit(self._release_memory)
                if not trial:
                    self._observe(Imported(form.media_type, msgspec.structs.asdict(run.counts)))

            # An import that is cancelled again does not wait for its last batch.
            upload.storing.add_done_callback(leave)
        is_minimal = has_preference(request, "return=minimal")
        fields = {"Preference-Applied": "return=minimal"} if is_minimal else {}
        for name, number in (("Changes-Before", before), ("Changes-After", after)):
            if number is not None:
                fields[name] = str(number)
        if trial is None:
            fields |= await recorded(request, self._reader)
        counts = msgspec.structs.asdict(run.counts)
        result = kind.result(
            **{name: counts[name] for name in kind.result.__struct_fields__ if name in counts},
            dry_run=True if trial else msgspec.UNSET,
            errors=msgspec.UNSET if is_minimal else errors,
            warnings=run.warnings or msgspec.UNSET,
        )
        return json_response(msgspec.json.encode(result), fields)

    async def close(self) -> None:
        """Wait until the thread has ended."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _store_all(self, upload: "_Upload") -> None:
        """Store each batch while the next piece is received and parsed."""
        try:
            body = upload.request.body
            arrivals = pieces(body if isinstance(body, bytes) else body.as_stream())
            async with contextlib.aclosing(self._pieces(arrivals)) as cut:
                async for piece in cut:
                    upload.require_client()
                    upload.run.batch_rows_max = self._rows_now(upload)
                    for batch in await self._in_thread(_parse, upload.run, piece):
                        await asyncio.shield(upload.storing)
                        upload.storing = asyncio.ensure_future(self._store(upload, batch))
            await asyncio.shield(upload.storing)
        finally:
            # After an error, a batch that waits for its turn is not stored. One that the writer
            # has got is stored, and counted.
            upload.is_over = True
            await asyncio.wait([upload.storing])

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

    async def _store(self, upload: "_Upload", batch: Batch) -> None:
        """Store a batch, and count its rows once it is on disk.

        Raises:
            RequestError: the token was revoked, or used too often; or the batch is not stored.

        """
        await self._admit(upload.request, upload.kind.scopes)
        async with self._turn:
            if upload.is_over:
                return
            upload.require_client()
            uses = len(batch.rows) - upload.prepaid_uses
            self._authenticator.rate_limit.spend(upload.request.token, uses)
            upload.prepaid_uses = 0
            if upload.trial is None:
                outcomes = await self._writer.submit_all(all_in_set(upload.request, batch.changes))
            else:
                stored = await self._reader.find_plants([change.id for change in batch.changes])
                upload.trial.bytes_max = TRIAL_BYTES_MAX // self._limit.running
                decide = upload.trial.decide
                outcomes = await self._in_thread(decide, batch.changes, stored)
            if upload.kind.has_plants:  # only one batch at a time may hold that much memory
                await self._in_thread(upload.run.settle, batch, outcomes)
        if not upload.kind.has_plants:
            await self._in_thread(upload.run.settle, batch, outcomes)

    async def _admit(self, request: Request, scopes: Sequence[str]) -> None:
        """Check that the token still allows the import."""
        for scope in scopes:
            await self._authenticator.authorize(request, scope, uses=0)

    async def _last_number(self, upload: "_Upload") -> int | None:
        """Return the number of the last change; None if the feed is off, or for a dry run."""
        if upload.trial is not None:
            return None
        try:
            return (await self._reader.read(PlantStore.read_changes, None, 1)).end
        except RequestError as error:
            if error.code is ErrorCode.FEED_OFF:
                return None
            raise

    def _rows_now(self, upload: "_Upload") -> int:
        """Return the number of rows of the next batches."""
        since = asyncio.get_running_loop().time() - self._writer.last_single_at
        is_shared = since < SHARED_SECONDS or upload.trial is not None
        return min(SHARED_BATCH_ROWS_MAX if is_shared else sys.maxsize, self._batch_rows_max)

    async def _in_thread(
        self, function: Callable[[*ArgumentsT], ResultT], *args: *ArgumentsT
    ) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)


def _nothing() -> "asyncio.Future[None]":
    """Return a future that is done."""
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


@dataclass(slots=True)
class _Upload:
    """The state of one import.

    Attributes:
        request: has the body.
        run: parses and counts its rows.
        kind: of the import.
        trial: decides its batches if it is a dry run.
        prepaid_uses: uses of the token that were counted before its first batch: the request.
        is_over: whether no further batch may be stored.
        storing: the last batch that was begun. It is done when the batch is stored and counted.

    """

    request: Request
    run: Import
    kind: Kind
    trial: Trial | None
    prepaid_uses: int = 1
    is_over: bool = False
    storing: "asyncio.Future[None]" = field(default_factory=_nothing)

    def require_client(self) -> None:
        """Check that the client is still connected.

        Raises:
            ClientGoneError: it is not.

        """
        if self.request.is_client_gone():
            raise ClientGoneError


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
    if lines_stored_through:  # by an earlier batch
        error.message = error.message.removesuffix("; nothing was done")
    error.lines_stored_through = lines_stored_through
    return error.with_traceback(None)
