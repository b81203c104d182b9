"""An import: many rows become changes, in batches, and each row has an outcome.

`plantstore import` and `POST /plants` with a file as the body run it. Whoever runs it applies the
changes of each batch, and passes their outcomes to `settle`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from plantstore.changes import BATCH_CHARACTERS_MAX, Change, Outcome, Result, Upsert
from plantstore.errors import BatchRefusedError, IdTakenError, RequestError
from plantstore.formats.rows import Row
from plantstore.plants import NewPlant

# A row may be larger than a request body by this much, since the body of a PUT has no id.
ROW_SLACK_BYTES: Final = 1024

# Errors of rows that a service lists in its answer. All of them are counted.
LISTED_ERRORS_MAX: Final = 1_000


class Conflict(Enum):
    """What to do with a row if a different plant has its id."""

    REFUSE = "refuse"
    SKIP = "skip"
    REPLACE = "replace"


class Batch(NamedTuple):
    """Rows that are stored in one transaction, and the change of each row."""

    rows: list[Row]
    changes: list[Change]


class RowCounts(msgspec.Struct):
    """What became of the rows of an import.

    Attributes:
        stored: number of rows whose plants were stored.
        already_stored: number of rows whose plants were stored before.
        replaced: number of rows that replaced a plant.
        skipped: number of rows that were skipped, because a different plant has the id.
        refused: number of rows that are not valid, or were refused.

    """

    stored: int = 0
    already_stored: int = 0
    replaced: int = 0
    skipped: int = 0
    refused: int = 0

    def add(self, more: "RowCounts") -> None:
        """Add the counts of another part of the import."""
        self.stored += more.stored
        self.already_stored += more.already_stored
        self.replaced += more.replaced
        self.skipped += more.skipped
        self.refused += more.refused

    def rows(self) -> int:
        """Return the number of rows."""
        return self.done() + self.skipped + self.refused

    def done(self) -> int:
        """Return the number of rows whose plants are in the store."""
        return self.stored + self.already_stored + self.replaced


class RowError(msgspec.Struct, frozen=True):
    """A row that was refused: the line that it begins on, from 1, and the error."""

    line: int
    error: int
    message: str


# Takes the error of a row that is not stored, and the row.
Reject: TypeAlias = Callable[[RowError, Row], None]


class ImportResult(RowCounts):
    """The answer of a service to an import.

    Attributes:
        errors: the first LISTED_ERRORS_MAX of the refused rows, unless they are not wanted.
        warnings: about the whole body.

    """

    errors: list[RowError] | msgspec.UnsetType = msgspec.UNSET
    warnings: list[str] | msgspec.UnsetType = msgspec.UNSET


class Import:
    """The state of one import.

    Args:
        conflict: what to do with a row if a different plant has its id.
        reject: is called with each row that is refused, in no particular order.
        batch_plants_max: maximum number of rows in one transaction.
        batch_characters_max: number of characters in one transaction; the row that reaches it
            still belongs to it.

    Attributes:
        batch_plants_max: the same. It may be changed; the next batch has the new size.
        counts: of the rows that were refused, or whose transactions were committed.
        lines_stored_through: the last line of the last transaction that was committed.

    """

    def __init__(
        self,
        conflict: Conflict,
        reject: Reject,
        *,
        batch_plants_max: int,
        batch_characters_max: int = BATCH_CHARACTERS_MAX,
    ) -> None:
        self._conflict = conflict
        self._reject = reject
        self.batch_plants_max = batch_plants_max
        self._batch_characters_max = batch_characters_max
        self.counts = RowCounts()
        self.lines_stored_through = 0

    def batches(self, rows: Iterable[Row]) -> Iterator[Batch]:
        """Yield the rows in batches, without those that are not valid.

        A batch is complete when it has `batch_plants_max` rows, or `batch_characters_max`
        characters.
        """
        batch: list[Row] = []
        characters = 0
        for row in rows:
            if isinstance(row.content, RequestError):
                self._refuse(row, row.content)
                continue
            batch.append(row)
            characters += len(row.raw)
            if len(batch) >= self.batch_plants_max or characters >= self._batch_characters_max:
                yield Batch(batch, self._changes(batch))
                batch = []
                characters = 0
        if batch:
            yield Batch(batch, self._changes(batch))

    def settle(self, batch: Batch, outcomes: Sequence[Result | RequestError]) -> None:
        """Count the outcomes of a batch, after its commit.

        Raises:
            RequestError: the batch was not stored, for a reason that lies in none of its rows.

        """
        stored = outcomes.count(Outcome.STORED)
        self.counts.stored += stored
        others = () if stored == len(batch.rows) else zip(*batch, outcomes, strict=True)
        for row, change, outcome in others:
            match outcome:
                case Outcome.STORED:
                    pass
                case Outcome.ALREADY_STORED:
                    self.counts.already_stored += 1
                case Outcome.REPLACED:
                    self.counts.replaced += 1
                case Outcome.ID_TAKEN if self._conflict is Conflict.SKIP:
                    self.counts.skipped += 1
                case Outcome.ID_TAKEN:
                    self._refuse(row, IdTakenError(change.id))
                case BatchRefusedError():
                    self._refuse(row, outcome)
                case RequestError():
                    raise RequestError(outcome.code, outcome.message)
        last = batch.rows[-1]
        self.lines_stored_through = last.line + last.lines - 1

    def add_result(self, rows: Sequence[Row], result: ImportResult) -> None:
        """Add the result of a service that stored these rows, each as one line."""
        self.counts.add(result)
        for error in result.errors or ():
            row = rows[error.line - 1]
            self._reject(RowError(row.line, error.error, error.message), row)

    def _changes(self, rows: Sequence[Row]) -> list[Change]:
        plants = (row.content for row in rows if isinstance(row.content, NewPlant))
        return [*map(Upsert, plants)] if self._conflict is Conflict.REPLACE else [*plants]

    def _refuse(self, row: Row, error: RequestError) -> None:
        self.counts.refused += 1
        self._reject(RowError(row.line, error.code, error.message), row)
