"""Plants as CSV (RFC 4180), with a header. An empty cell means no tag."""

import contextlib
import csv
import io
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import BinaryIO, Self

from plantstore.errors import ErrorCode, RequestError, UsageError
from plantstore.formats.rows import Reject, Row
from plantstore.plants import NewPlant, make_new_plant


def read_csv(file: BinaryIO, row_characters_max: int) -> Generator[Row, None, None]:
    """Read the header of a file, and return what yields its rows; a blank line is none.

    The header must name `id` and `name`, and may name `tag`; other columns are
    passed over, as other members of a request are. Where a row breaks the rules of
    CSV, or is larger than it may be, its first line is refused, and the next line
    is read as a row again: an open quote costs its own row, and not the file.

    Raises:
        UsageError: the header is not that of plants.

    """
    csv.field_size_limit(row_characters_max)
    lines = _Lines(file, row_characters_max)
    reader = csv.reader(lines, strict=True)
    try:
        parse = _parser_of_cells(next(reader, []))
    except csv.Error as error:
        raise UsageError(f"The header of the file is no CSV: {error}") from None
    lines.end_row()
    return _read_rows(lines, reader, parse)


def render_csv(plants: Sequence[NewPlant]) -> bytes:
    """Write plants as rows.

    Raises:
        UsageError: one has an empty tag, which no cell can hold.

    """
    for plant in plants:
        if plant.tag == "":
            raise UsageError(
                f"CSV cannot hold the plant {plant.id}: its tag is empty, and in CSV an empty "
                f"cell means no tag. Export JSON lines instead"
            )
    return _to_csv([(plant.id, plant.name, plant.tag) for plant in plants]).encode()


def _read_rows(
    lines: "_Lines", reader: Iterable[list[str]], parse: Callable[[list[str]], NewPlant | Reject]
) -> Generator[Row, None, None]:
    with contextlib.closing(lines):
        while True:
            try:
                for cells in reader:
                    line = lines.end_row()
                    if cells:
                        yield line, parse(cells)
            except csv.Error as error:
                too_large = isinstance(error, _RowTooLargeError)
                code = ErrorCode.BODY_TOO_LARGE if too_large else ErrorCode.INVALID_PLANT
                line, text = lines.give_up_row()
                yield line, Reject(RequestError(code, f"The row is no CSV: {error}"), text)
            else:
                return


class _RowTooLargeError(csv.Error):
    """A row has more characters than may be held."""


class _Lines:
    """The lines of a CSV file, for a reader that would hold a row of any size."""

    def __init__(self, file: BinaryIO, row_characters_max: int) -> None:
        # What is no UTF-8 comes as surrogates, so that it can be told of the row.
        self._text = io.TextIOWrapper(
            file, encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        self._row_characters_max = row_characters_max
        self._begins = 1  # the number of the line that the row begins on
        self._row: list[str] = []
        self._characters = 0
        self._again: deque[str] = deque()  # lines that come once more

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        if self._again:
            line = self._again.popleft()
        else:
            line = self._text.readline(self._row_characters_max)
        if not line:
            raise StopIteration
        self._row.append(line)
        self._characters += len(line)
        if self._characters > self._row_characters_max or len(line) == self._row_characters_max:
            if line[-1] not in "\r\n":  # this line alone is too long
                self._row[-1] = line[:-1] + "\n"
                self._skip_line()
            raise _RowTooLargeError(f"it is larger than {self._row_characters_max} characters")
        return line

    def end_row(self) -> int:
        """Return the number of the line on which the row began that has just been read."""
        began = self._begins
        self._begins += len(self._row)
        self._row = []
        self._characters = 0
        return began

    def give_up_row(self) -> tuple[int, str]:
        """Return the first line of the row, and its number; the others come once more."""
        first, *others = self._row
        self._row = [first]
        self._again.extendleft(reversed(others))
        return self.end_row(), first

    def close(self) -> None:
        """Let go of the file, which is the caller's to close."""
        self._text.detach()

    def _skip_line(self) -> None:
        while (rest := self._text.readline(self._row_characters_max)) and rest[-1] not in "\r\n":
            pass


def _parser_of_cells(header: list[str]) -> Callable[[list[str]], NewPlant | Reject]:
    """Return what makes a plant of the cells that stand below this header."""
    missing = [name for name in ("id", "name") if name not in header]
    twice = [name for name in ("id", "name", "tag") if header.count(name) > 1]
    if missing or twice:
        raise UsageError(
            f"The header of the CSV file must name id and name once, and may name tag; "
            f"got {','.join(header)[:100]!r}"
        )
    id_at, name_at = header.index("id"), header.index("name")
    tag_at = header.index("tag") if "tag" in header else None

    def parse(cells: list[str]) -> NewPlant | Reject:
        if len(cells) != len(header):
            message = f"Expected {len(header)} cells, got {len(cells)}"
            return Reject(RequestError(ErrorCode.INVALID_PLANT, message), _to_csv([cells]))
        name, tag = cells[name_at], "" if tag_at is None else cells[tag_at]
        try:
            if not (name.isascii() and tag.isascii()):
                (name + tag).encode()
            return make_new_plant(cells[id_at].encode(), name, tag or None)
        except UnicodeEncodeError:
            error = RequestError(ErrorCode.UNSTORABLE_TEXT, "The row is not UTF-8")
        except RequestError as refused:
            error = refused
        return Reject(error, _to_csv([cells]))

    return parse


def _to_csv(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()
