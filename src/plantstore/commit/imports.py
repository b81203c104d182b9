"""An import: many rows become changes, in batches, and each row has an outcome.

`plantstore import`, `POST /plants.csv` and `POST /changes` run it. Whoever runs it passes the bytes
of the file to `feed`, applies the changes of each batch that it returns, and passes their outcomes
to `settle`.
"""

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

import msgspec

from plantstore.changes import (
    Change,
    Outcome,
    PlantOutcome,
    Result,
    SingleChange,
    Swap,
    Upsert,
    error_of,
)
from plantstore.decision import decide
from plantstore.errors import BatchRefusedError, ErrorCode, RequestError
from plantstore.formats.rows import Item, RowParser, Rows
from plantstore.plants import NewPlant, render_stored_plant

# Rows of one transaction. With a quarter as many, each row takes 1.5 times as long. Rows that
# keep what is stored read as many plants, so this also bounds the memory.
BATCH_ROWS_MAX: Final = 4_000

# Bytes of the file after which a batch is complete, however few rows it has. It bounds the memory
# for large rows: four thousand of usual size have about half of it.
BATCH_BYTES_MAX: Final = 512 * 1024

# Memory for the plants that dry runs would have stored. One alone remembers those of its last
# twenty thousand usual rows at least.
DRY_RUN_BYTES_MAX: Final = 16 * 1024 * 1024

# The memory of such a plant besides its texts: two objects, and its share of a dictionary.
_PLANT_BYTES: Final = 200

# Errors of rows that a service lists in its response. All of them are counted.
LISTED_ERRORS_MAX: Final = 1_000

# Size of the stored plants that these errors show, as JSON.
SHOWN_BYTES_MAX: Final = 128 * 1024

# The outcomes that are counted. The value of each is the name of its number in RowCounts.
_COUNTED: Final = (Outcome.STORED, Outcome.ALREADY_STORED, Outcome.REPLACED, Outcome.DELETED)


class Conflict(Enum):
    """What to do with a row if a different plant has its id."""

    REFUSE = "refuse"
    SKIP = "skip"
    REPLACE = "replace"


class RowCounts(msgspec.Struct):
    """What became of the rows of an import.

    Attributes:
        stored: number of rows whose plants were stored.
        already_stored: number of rows whose plants were stored before.
        replaced: number of rows that replaced a plant.
        skipped: number of rows that were skipped, because a different plant has the id.
        refused: number of valid rows that were refused, plus the lines of rows that are not valid:
            one open quote may span many lines.
        deleted: number of rows that deleted a plant.

    """

    stored: int = 0
    already_stored: int = 0
    replaced: int = 0
    skipped: int = 0
    refused: int = 0
    deleted: int = 0


class RowError(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that was refused: the line that it begins on, from 1, and the error.

    `last_line` is the line that it ends on, or None if it has only one. `plant` is the one that has
    the id of a refused change; None if there is none, and UNSET if it is not shown.
    """

    line: int
    error: int
    message: str
    last_line: int | None = None
    plant: NewPlant | msgspec.UnsetType | None = msgspec.UNSET


# Takes the error of a row that is not stored, and the text of the row.
Reject: TypeAlias = Callable[[RowError, str | bytes], None]


class RowBatch(NamedTuple):
    """Rows that are stored in one transaction.

    Attributes:
        rows: all of them. Those that are not valid are refused.
        changes: the changes of the others, in the same order.

    """

    rows: Rows
    changes: list[SingleChange]

    def before(self, number: int) -> "RowBatch":
        """Return the rows before the change with a number, from 0."""
        of_changes = (row for row, item in enumerate(self.rows.items) if item is not None)
        end = next(itertools.islice(of_changes, number, None))
        return RowBatch(self.rows.part(0, end), self.changes[:number])


class Import:
    """The state of one import: it parses a file, makes batches of its rows, and counts them.

    Args:
        parser: of the file.
        conflict: what to do with a row if a different plant has its id.
        reject: is called with each row that is refused, in the order of the file.
        batch_rows_max: maximum number of rows in one transaction.
        errors_max: number of refused rows that are rejected; the others are only counted.
        shown_bytes_max: size of the plants that RowErrors show, as JSON; 0 to show none.

    Attributes:
        batch_rows_max: the same. It may be changed; the next batch has the new size.
        counts: of the rows of the batches that were committed.
        lines_stored_through: the last line of the last batch that was committed.

    """

    def __init__(
        self,
        parser: RowParser,
        conflict: Conflict,
        reject: Reject,
        *,
        batch_rows_max: int = BATCH_ROWS_MAX,
        errors_max: int = sys.maxsize,
        shown_bytes_max: int = 0,
    ) -> None:
        self._parser = parser
        self._conflict = conflict
        self._reject = reject
        self.batch_rows_max = batch_rows_max
        self._errors_max = errors_max
        self._shown_bytes_left = shown_bytes_max
        self._counted = {outcome: outcome.value for outcome in _COUNTED}
        if conflict is Conflict.SKIP:
            self._counted[Outcome.ID_TAKEN] = "skipped"
        self._rejected = 0
        self._rows = Rows()  # those in no batch
        self._bytes = 0  # of the file, since a batch was last complete
        self.counts = RowCounts()
        self.lines_stored_through = 0

    @property
    def warnings(self) -> list[str]:
        """Warnings about the whole file, so far."""
        return self._parser.warnings

    def feed(self, data: bytes) -> list[RowBatch]:
        """Parse more of the file; return the batches that are complete now.

        A batch is complete if it has `batch_rows_max` rows, or with the rows that have arrived once
        BATCH_BYTES_MAX bytes of the file did.

        Raises:
            OperationError: this is not a file of the format.

        """
        self._bytes += len(data)
        self._rows.extend(self._parser.feed(data))
        return self._take(at_least=1 if self._bytes >= BATCH_BYTES_MAX else self.batch_rows_max)

    def finish(self) -> list[RowBatch]:
        """Parse the end of the file; return the batches that are left.

        Raises:
            OperationError: this is not a file of the format.

        """
        self._rows.extend(self._parser.finish())
        return self._take(at_least=1)

    def _take(self, at_least: int) -> list[RowBatch]:
        """Remove rows in batches, until fewer are left than a batch needs."""
        begin, count = 0, len(self._rows)
        batches = []
        while count - begin >= at_least:
            end = min(begin + self.batch_rows_max, count)
            batches.append(self._batch_of(self._rows.part(begin, end)))
            begin = end
        if batches:
            self._rows = self._rows.part(begin, count)
            self._bytes = 0
        return batches

    def _batch_of(self, rows: Rows) -> RowBatch:
        if self._conflict is not Conflict.REPLACE:
            return RowBatch(rows, [item for item in rows.items if item is not None])
        plants = [item for item in rows.items if isinstance(item, NewPlant)]
        return RowBatch(rows, [Upsert(plant, self._parser.lacks_tags) for plant in plants])

    def settle(self, batch: RowBatch, outcomes: Sequence[Result | RequestError]) -> None:
        """Count the rows of a batch, after its commit.

        Raises:
            RequestError: a row was not stored, for a reason that does not lie in it. The rows
                before it are counted: their part of the batch was committed before.

        """
        counted, refused = {}, len(outcomes)
        for outcome, name in self._counted.items():
            counted[name] = outcomes.count(outcome) if refused else 0
            refused -= counted[name]
        if refused:
            for number, result in enumerate(outcomes):
                if isinstance(result, RequestError) and not isinstance(result, BatchRefusedError):
                    if number:
                        self.settle(batch.before(number), outcomes[:number])
                    raise result.again()
        if len(batch.rows) > len(batch.changes):
            refused += sum(_lines_of_invalid(batch.rows))
        errors: list[tuple[RowError, str | bytes]] = []
        if refused and self._rejected < self._errors_max:
            errors = self._errors_of(batch, outcomes)
        for name, many in (*counted.items(), ("refused", refused)):
            setattr(self.counts, name, getattr(self.counts, name) + many)
        self._rejected += len(errors)
        for error, text in errors:
            self._reject(error, text)
        self.lines_stored_through = batch.rows.last_lines[-1]

    def _errors_of(
        self, batch: RowBatch, outcomes: Sequence[Result | RequestError]
    ) -> list[tuple[RowError, str | bytes]]:
        """Return the first wanted errors of a batch."""
        errors: list[tuple[RowError, str | bytes]] = []
        rows, of_valid, counted = batch.rows, iter(outcomes), [*self._counted]
        for line, last, item, text in zip(
            rows.first_lines, rows.last_lines, rows.items, rows.texts, strict=True
        ):
            outcome = None if item is None else next(of_valid)
            error = None if outcome in counted else self._error_of(item, outcome, text)
            if error is None:
                continue
            if self._rejected + len(errors) >= self._errors_max:
                break
            last_line = last if last > line else None
            listed = RowError(line, error.code, error.message, last_line)
            if isinstance(outcome, PlantOutcome):
                listed = self._show(listed, outcome.plant)
            errors.append((listed, text))
        return errors

    def _error_of(
        self, item: Item | None, outcome: Result | RequestError | None, text: str | bytes
    ) -> RequestError | None:
        if item is None or outcome is None:
            return self._parser.explain(text)
        if isinstance(outcome, PlantOutcome):
            expects_none = isinstance(item, Swap) and item.before is None
            other = "a plant" if expects_none else "another plant"
            found = "no plant" if outcome.plant is None else other
            message = f"`before` is not what is stored: {found} has the id {item.id}"
            return RequestError(ErrorCode.PRECONDITION_FAILED, message)
        return outcome if isinstance(outcome, RequestError) else error_of(outcome, item.id)

    def _show(self, error: RowError, plant: NewPlant | None) -> RowError:
        """Return the error with the plant that has the id, if it may be shown."""
        size = 0 if plant is None else len(render_stored_plant(plant))
        if self._shown_bytes_left <= size:
            return error
        self._shown_bytes_left -= size
        return msgspec.structs.replace(error, plant=plant)


class DryRun:
    """The state of a dry run: it decides the batches of a run, and nothing is stored.

    A batch sees what the batches before it would have made, back to half of `bytes_max`.

    Attributes:
        bytes_max: memory for these plants. It may be changed, and then holds for the next batch.

    """

    def __init__(self, bytes_max: int = DRY_RUN_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        # By id, None if it was deleted. When the newer ones have half of the bytes, the older ones
        # are forgotten.
        self._newer: dict[int, NewPlant | None] = {}
        self._older: dict[int, NewPlant | None] = {}
        self._newer_bytes = 0

    def decide(self, changes: Sequence[Change], stored: dict[int, NewPlant]) -> list[Result]:
        """Return the results that a batch would have; `stored` has the stored plants of its ids."""
        for id_ in {change.id for change in changes}:
            known = self._newer.get(id_, self._older.get(id_, stored.get(id_)))
            if known is not None:
                stored[id_] = known
            else:
                stored.pop(id_, None)
        results, difference = decide(changes, stored)
        for plant in difference.new + difference.changed:
            self._newer[plant.id] = plant
            self._newer_bytes += _PLANT_BYTES + sys.getsizeof(plant.name) + sys.getsizeof(plant.tag)
        self._newer |= dict.fromkeys(difference.deleted)
        self._newer_bytes += _PLANT_BYTES * len(difference.deleted)
        if self._newer_bytes > self.bytes_max // 2:
            self._older, self._newer, self._newer_bytes = self._newer, {}, 0
        return results


def _lines_of_invalid(rows: Rows) -> Iterator[int]:
    """Return the number of lines of each row that is not valid."""
    for first, last, item in zip(rows.first_lines, rows.last_lines, rows.items, strict=True):
        if item is None:
            yield last - first + 1
