"""Many rows in one request: the bodies of `POST /plants.csv`, `/plants.ndjson` and `/changes`.

The event loop receives a piece of the body, a thread parses it into batches of rows, and
`plantstore.api.bulk_changes` makes each batch while the next piece is received and parsed. So an
import holds at most two batches, a piece and an incomplete row. If the client sends faster than the
disk can store, the service makes it wait.

A list of changes is a file of other rows.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

import msgspec

from plantstore.api.auth import Authenticator
from plantstore.api.bulk_changes import CHANGE_SCOPES, BulkChanges, Job, Step
from plantstore.api.parameters import (
    has_preference,
    invalid,
    json_response,
    media_type_of,
    parse_flag,
    read_query,
    require_no_coding,
    set_of,
    unsupported,
)
from plantstore.changes import Swap
from plantstore.commit.imports import (
    LISTED_ERRORS_MAX,
    SHOWN_BYTES_MAX,
    Conflict,
    DryRun,
    Import,
    RowBatch,
    RowError,
)
from plantstore.errors import ErrorCode, OperationError, RequestError, StoreUnavailableError, quoted
from plantstore.formats import FORMATS, Format
from plantstore.formats.json_lines import ChangeLinesParser
from plantstore.formats.rows import PIECE_BYTES
from plantstore.messages import Request, Response, pieces
from plantstore.observe import Imported, Observer

# How fast a client must send, on average.
BYTES_PER_SECOND_MIN: Final = 1024

# What programs send that do not know the type of a file: curl sends the first one.
_UNSPECIFIC: Final = frozenset(
    {"application/x-www-form-urlencoded", "application/octet-stream", "text/plain"}
)


class FileImports:
    """Makes the changes of bodies.

    Args:
        authenticator: knows the tokens.
        bulk: makes changes.
        patience_seconds: how long a client may send nothing.
        observe: gets each import.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self,
        authenticator: Authenticator,
        bulk: BulkChanges,
        *,
        patience_seconds: float,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._authenticator = authenticator
        self._bulk = bulk
        self._patience_seconds = patience_seconds
        self._observe = observe
        self._monotonic = monotonic

    async def run(self, request: Request) -> Response:
        """Store the plants of a file, as `_receive` does. The path names the format."""
        form = FORMATS[request.path.rpartition(".")[2]]
        parameters = read_query(request, "on-conflict", "dry-run")
        conflict = _parse_conflict(parameters.get("on-conflict", "refuse"))
        scopes = {"plants:create"} | ({"plants:update"} if conflict is Conflict.REPLACE else set())
        begin = partial(Import, form.parser(), conflict)
        return await self._receive(request, form, begin, parameters, scopes=scopes)

    async def change(self, request: Request) -> Response:
        """Make the changes of a list, as `_receive` does."""
        parameters = read_query(request, "dry-run")
        scopes = (await self._authenticator.authenticate(request)).scopes
        parser = ChangeLinesParser(partial(_require_scopes, scopes))
        is_shown = self._authenticator.public_read or "plants:read" in scopes
        shown = SHOWN_BYTES_MAX if is_shown else 0
        begin = partial(Import, parser, Conflict.REFUSE, shown_bytes_max=shown)
        form = FORMATS["ndjson"]
        return await self._receive(
            request, form, begin, parameters, scopes=[CHANGE_SCOPES], is_list=True
        )

    async def _receive(
        self,
        request: Request,
        form: Format,
        begin: Callable[..., Import],
        parameters: dict[str, str],
        *,
        scopes: Collection[str],
        is_list: bool = False,
    ) -> Response:
        """Make the changes of a body: 200 with the counts of its rows, once all are on disk.

        They are among those of the feed from `Changes-Before` to `Changes-After`.

        Args:
            request: has the body.
            form: the format of the body, or one with the same media types.
            begin: returns an Import. Its arguments are `reject` and `errors_max`.
            parameters: of the request.
            scopes: that its token needs.
            is_list: whether it is a list of changes. Their outcomes may have plants.

        Raises:
            RequestError: a parameter or the media type is refused, the token lacks a scope, the
                body is truncated, arrives too slowly or is not in the format, or the store failed.
                What was stored before stays.

        """
        dry_run = DryRun() if parse_flag(parameters, "dry-run") else None
        _require_type(request, form)
        name = set_of(request)
        job = Job(request, scopes, None if dry_run else name, dry_run, is_list)
        await self._bulk.admit(request, scopes)
        errors: list[RowError] = []
        run = begin(lambda error, _text: errors.append(error), errors_max=LISTED_ERRORS_MAX)

        def ended() -> None:
            if dry_run is None:
                self._observe(Imported(form.media_type, msgspec.structs.asdict(run.counts)))

        try:
            fields = await self._bulk.make(job, self._parsed(job, run), ended)
        except (RequestError, asyncio.CancelledError) as error:
            # Only `error` may refer to it, since Python deletes this name. Otherwise the error and
            # this frame would refer to each other, and keep the rows until the next collection.
            raise _interrupted(error, 0 if dry_run else run.lines_stored_through) from None
        result: dict[str, object] = msgspec.structs.asdict(run.counts)
        del result["skipped" if is_list else "deleted"]  # never counted
        if dry_run:
            result["dry_run"] = True
        if has_preference(request, "return=minimal"):
            fields["Preference-Applied"] = "return=minimal"
        else:
            result["errors"] = errors
        if run.warnings:
            result["warnings"] = run.warnings
        return json_response(msgspec.json.encode(result), fields)

    async def _parsed(self, job: Job, run: Import) -> AsyncGenerator[Step]:
        """Receive and parse a body, and yield its batches."""
        body = job.request.body
        arrivals = pieces(body if isinstance(body, bytes) else body.as_stream())
        async with contextlib.aclosing(self._pieces(arrivals)) as cut:
            async for piece in cut:
                job.require_client()
                run.batch_rows_max = self._bulk.rows_now(job)
                for batch in await self._bulk.in_thread(_parse, run, piece):
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


def _parse(run: Import, piece: bytes) -> list[RowBatch]:
    """Parse a piece of a body, or its end if it is empty; return the batches that are complete."""
    try:
        return run.feed(piece) if piece else run.finish()
    except OperationError as error:
        raise RequestError(ErrorCode.INVALID_PLANT, error.message) from None


def _require_scopes(scopes: AbstractSet[str], swap: Swap) -> None:
    """Check that a token with these scopes may make a change.

    Raises:
        RequestError: SCOPE_MISSING.

    """
    for scope in swap.scopes:
        if scope not in scopes:
            raise RequestError(ErrorCode.SCOPE_MISSING, f"The token lacks the scope {scope}")


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
    known = {form.media_type, *form.other_media_types, *_UNSPECIFIC}
    if given and media_type_of(given) not in known:
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
