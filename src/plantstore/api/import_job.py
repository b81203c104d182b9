"""One import over HTTP: the work of its thread.

The thread parses the rows, and passes batches of changes to the event loop, which has them stored.
While one batch is stored, the thread parses the next one.

A larger transaction needs fewer syncs, and writes each page of the database less often. But single
changes wait for it. So batches grow only while there are no single changes.
"""

import asyncio
import contextlib
import io
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from operator import attrgetter
from typing import Any, Final, TypeAlias

import msgspec

from plantstore.api.streams import PIECE_BYTES
from plantstore.changes import Change, Result
from plantstore.errors import ErrorCode, OperationError, RequestError
from plantstore.formats import Format
from plantstore.formats.rows import Row
from plantstore.imports import (
    LISTED_ERRORS_MAX,
    Batch,
    Conflict,
    Import,
    ImportResult,
    RowError,
)

Outcomes: TypeAlias = Sequence[Result | RequestError]

# Characters in one transaction. Each import holds about two transactions in memory, and a character
# may take four bytes. Eight thousand rows of usual size have about as many.
BATCH_CHARACTERS_MAX: Final = 512 * 1024

# A batch that is being stored.
_Pending: TypeAlias = tuple[Batch, Future[Outcomes]]


class ImportJob:
    """One import, for a thread to run. Create it on the event loop.

    Args:
        form: of the body.
        body: a file that the thread reads.
        row_bytes_max: size of a row.
        conflict: what to do with a row if a different plant has its id.
        batch_plants_max: number of rows in a transaction while there are no single changes.
        shared_batch_plants_max: number of rows in a transaction beside single changes.
        store: stores a batch; it runs on the event loop.
        single_changes: returns the number of single changes so far.

    """

    def __init__(
        self,
        form: Format,
        body: io.RawIOBase,
        *,
        row_bytes_max: int,
        conflict: Conflict,
        batch_plants_max: int,
        shared_batch_plants_max: int,
        store: Callable[[Sequence[Change]], Coroutine[Any, Any, Outcomes]],
        single_changes: Callable[[], int],
    ) -> None:
        self._form = form
        self._file = io.BufferedReader(body, PIECE_BYTES)
        self._row_bytes_max = row_bytes_max
        self._batch_plants_max = batch_plants_max
        self._shared_batch_plants_max = shared_batch_plants_max
        self._store = store
        self._single_changes = single_changes
        self._single_changes_before = single_changes()
        self._loop = asyncio.get_running_loop()
        self.progress = Import(
            conflict,
            self._reject,
            batch_plants_max=shared_batch_plants_max,
            batch_characters_max=BATCH_CHARACTERS_MAX,
        )
        self._errors: list[RowError] = []
        self._warnings: list[str] = []

    def run(self) -> None:
        """Store the rows of the body.

        While one batch is stored, the next one is parsed.
        """
        try:
            rows = self._form.read(self._file, self._row_bytes_max, self._warnings.append)
        except OperationError as error:
            raise RequestError(ErrorCode.INVALID_PLANT, error.message) from error
        pending: _Pending | None = None
        with contextlib.closing(rows):
            batches = self.progress.batches(rows)
            while True:
                self._choose_batch_size()
                try:
                    batch = next(batches, None)
                except Exception:
                    self._settle(pending)
                    raise
                storing = None if batch is None else (batch, self._begin_to_store(batch))
                self._settle(pending)
                if storing is None:
                    return
                pending = storing

    def _reject(self, error: RowError, _row: Row) -> None:
        """List a row that was refused."""
        if len(self._errors) < LISTED_ERRORS_MAX:
            self._errors.append(error)

    def result(self, *, is_minimal: bool) -> ImportResult:
        """Return the answer."""
        return ImportResult(
            **msgspec.structs.asdict(self.progress.counts),
            errors=msgspec.UNSET if is_minimal else sorted(self._errors, key=attrgetter("line")),
            warnings=self._warnings or msgspec.UNSET,
        )

    def _choose_batch_size(self) -> None:
        """Make each batch larger than the one before, until there are single changes."""
        single_changes = self._single_changes()
        is_shared = single_changes != self._single_changes_before
        self._single_changes_before = single_changes
        size = self._shared_batch_plants_max if is_shared else 2 * self.progress.batch_plants_max
        self.progress.batch_plants_max = min(size, self._batch_plants_max)

    def _begin_to_store(self, batch: Batch) -> Future[Outcomes]:
        return asyncio.run_coroutine_threadsafe(self._store(batch.changes), self._loop)

    def _settle(self, pending: _Pending | None) -> None:
        if pending is not None:
            batch, outcomes = pending
            self.progress.settle(batch, outcomes.result())
