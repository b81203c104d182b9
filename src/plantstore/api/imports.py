"""Many plants in one request: `POST /plants` with CSV or JSON lines as the body.

A thread parses the body while it arrives. It is at most two transactions ahead of what is stored.
So memory is bounded for a body of any length. If the client sends faster than the disk can store,
the service makes it wait.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.import_job import ImportJob, Outcomes
from plantstore.api.limits import shorten
from plantstore.api.parameters import read_query
from plantstore.api.places import Places
from plantstore.api.preferences import has_preference
from plantstore.api.streams import ArrivingFile, InflatedFile, Pace
from plantstore.changes import Change
from plantstore.errors import (
    ErrorCode,
    RequestError,
    UnsupportedMediaTypeError,
)
from plantstore.formats import FORMATS, MEDIA_TYPES
from plantstore.imports import Conflict
from plantstore.observe import Imported, Observer
from plantstore.server.interface import STREAMED
from plantstore.writer import GroupCommit

# Imports that run at a time. Each has a thread.
IMPORTS_MAX: Final = 32

# While there are no single changes, a transaction may become so many times as large.
BATCH_GROWTH_MAX: Final = 8

# How long the event loop and the writer wait for a thread that parses. Python's default, 5 ms, is
# longer than a commit. A shorter time costs single changes CPU time, so it is for imports only.
SWITCH_SECONDS: Final = 0.000_5

_MEDIA_TYPE: Final = re.compile(
    r'([!-+\--:<-~]+)[ \t]*(?:;[ \t]*(?:(?:charset=(?:utf-?8|"utf-?8")|header=present)[ \t]*)?)*',
    re.IGNORECASE | re.ASCII,
)
_PARAMETERS: Final = frozenset({"on-conflict"})


def import_type(content_type: str | None) -> str | None:
    """Return the media type of a body with many plants, or None if it is another one."""
    match = _MEDIA_TYPE.fullmatch(content_type or "")
    media_type = match[1].lower() if match else ""
    return media_type if media_type in MEDIA_TYPES else None


class Imports:
    """Stores the plants of bodies.

    Args:
        gate: knows the tokens.
        writer: stores the plants.
        row_bytes_max: size of a row.
        batch_plants_max: number of rows in the first transaction.
        bytes_per_second_min: how fast a client must send, on average.
        patience_seconds: how long it may send nothing.
        observe: is told of each import.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self,
        gate: Gate,
        writer: GroupCommit,
        *,
        row_bytes_max: int,
        batch_plants_max: int,
        bytes_per_second_min: int,
        patience_seconds: float,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._gate = gate
        self._writer = writer
        self._row_bytes_max = row_bytes_max
        self._bytes_per_second_min = bytes_per_second_min
        self._patience_seconds = patience_seconds
        self._observe = observe
        self._monotonic = monotonic
        self._batch_plants_max = BATCH_GROWTH_MAX * batch_plants_max
        self._shared_batch_plants_max = max(1, batch_plants_max // 2)
        if gate.burst_max is not None:
            # Batches of half the rate can be stored beside other uses of the token.
            limit = max(1, gate.burst_max // 2)
            self._batch_plants_max = min(self._batch_plants_max, limit)
            self._shared_batch_plants_max = min(self._shared_batch_plants_max, limit)
        self._threads = ThreadPoolExecutor(IMPORTS_MAX, thread_name_prefix="import")
        self._places = Places(IMPORTS_MAX, "imports")
        self._usual_switch_seconds = sys.getswitchinterval()

    async def run(self, req: Request, resp: Response, media_type: str) -> None:
        """Store the plants of a body: 200 with the counts of its rows, once all are on disk.

        Raises:
            RequestError: the token is refused, the body is truncated, arrives too slowly or is
                not in the format, or the store failed. What was stored before stays.

        """
        await self._gate.authorize(req, "plants:create")
        conflict = _parse_conflict(read_query(req, _PARAMETERS).get("on-conflict", "refuse"))
        sink = _Sink(self._gate, self._writer, req, conflict)
        token = await sink.admit()
        inflate = _is_gzip(req.get_header("Content-Encoding"))
        pace = Pace(self._bytes_per_second_min, self._patience_seconds, self._monotonic)
        body = ArrivingFile(aiter(req.stream), pace)
        job = ImportJob(
            FORMATS[MEDIA_TYPES[media_type]],
            InflatedFile(body) if inflate else body,
            row_bytes_max=self._row_bytes_max,
            conflict=conflict,
            batch_plants_max=self._batch_plants_max,
            shared_batch_plants_max=self._shared_batch_plants_max,
            store=sink.store,
            single_changes=lambda: self._writer.singles_accepted,
        )
        self._places.take(token)
        sys.setswitchinterval(SWITCH_SECONDS)
        req.scope[STREAMED] = True
        try:
            await self._run(job, body)
        except RequestError as error:
            error.lines_stored_through = job.progress.lines_stored_through
            raise
        finally:
            self._places.leave(token)
            if not self._places.taken:
                sys.setswitchinterval(self._usual_switch_seconds)
            self._observe(Imported(media_type, msgspec.structs.asdict(job.progress.counts)))
        is_minimal = has_preference(req, "return=minimal")
        if is_minimal:
            resp.set_header("Preference-Applied", "return=minimal")
        resp.data = msgspec.json.encode(job.result(is_minimal=is_minimal))

    async def close(self) -> None:
        """Return when all threads have ended."""
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, job: ImportJob, body: ArrivingFile) -> None:
        running = asyncio.get_running_loop().run_in_executor(self._threads, job.run)
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:  # the server stops, and has no more time for this request
            body.abandon()
            await running


class _Sink:
    """Stores the batches of one import, one after the other."""

    def __init__(self, gate: Gate, writer: GroupCommit, req: Request, conflict: Conflict) -> None:
        self._gate = gate
        self._writer = writer
        self._req = req
        self._conflict = conflict
        # A batch begins while the one before is stored. It must not overtake it.
        self._order = asyncio.Lock()
        self._failed: RequestError | None = None
        # The request itself was counted as one use of its token.
        self._prepaid = 1

    async def admit(self) -> str:
        """Return the name of the token if it still allows the import."""
        if self._conflict is Conflict.REPLACE:
            await self._gate.admit(self._req, "plants:update")
        return await self._gate.admit(self._req, "plants:create")

    async def store(self, changes: Sequence[Change]) -> Outcomes:
        """Store a batch, and return its outcomes once it is on disk.

        Raises:
            RequestError: the token was revoked, or used too often.

        """
        async with self._order:
            if self._failed is not None:  # the batch before is not stored, so this one is not
                raise self._failed
            try:
                token = await self.admit()
                self._gate.spend(token, len(changes) - self._prepaid)
            except RequestError as error:
                self._failed = error
                raise
            self._prepaid = 0
            return await self._writer.submit_all(changes)


def _parse_conflict(text: str) -> Conflict:
    try:
        return Conflict(text)
    except ValueError:
        raise RequestError(
            ErrorCode.INVALID_PARAMETER,
            f"`on-conflict` must be refuse, skip or replace, got {shorten(text)}",
        ) from None


def _is_gzip(coding: str | None) -> bool:
    """Tell whether a body is compressed.

    Raises:
        UnsupportedMediaTypeError: the coding is another one.

    """
    if coding is None or coding.lower() == "identity":
        return False
    if coding.lower() in ("gzip", "x-gzip"):
        return True
    raise UnsupportedMediaTypeError(
        f"Content-Encoding must be gzip or absent, got {shorten(coding)}", [*MEDIA_TYPES], ["gzip"]
    )
