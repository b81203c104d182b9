"""Plants as CSV (RFC 4180) with a header. An empty cell means no tag."""

import contextlib
import csv
import io
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Self

from plantstore.errors import ErrorCode, OperationError, RequestError
from plantstore.formats.rows import Row, Source
from plantstore.plants import NewPlant, make_new_plant

# The possible separators. A file uses the first one with which its header names the columns.
SEPARATORS: Final = (",", ";", "\t")

COLUMNS: Final = ("id", "name", "tag")

# How many ignored columns a warning names, and how many characters of each.
_NAMED_COLUMNS_MAX: Final = 5
_NAMED_CHARACTERS_MAX: Final = 40

# The lines of a row that is not CSV are read again: in total, at most so many times the characters
# of the file, and so many times the maximum size of a row. Without this limit, a file
# in which each line opens a quote would take a time that grows with the square of its size.
_AGAIN_MAX: Final = 4

# How much of an invalid header an error message quotes.
_QUOTED_CHARACTERS_MAX: Final = 100


class _Columns(NamedTuple):
    """The number of cells in a row, the positions of the plant's cells, and the other columns."""

    number: int
    id: int
    name: int
    tag: int | None
    ignored: list[str]


def read_csv(
    file: Source, row_characters_max: int, warn: Callable[[str], None]
) -> Generator[Row, None, None]:
    """Read the header of a file, and return a generator of its rows. Blank lines are skipped.

    The header must name `id` and `name`, and may name `tag`, in any order and any case. Other
    columns are ignored with a warning. If a row is not CSV or is too large, its first line is
    an error, and the next line is read as a new row. So an open quote affects only its own row.
    But in a file with very many such rows, all lines of a row may be one error.

    Raises:
        OperationError: the header is missing, or does not name the columns.

    """
    csv.field_size_limit(row_characters_max)
    lines = _Lines(file, row_characters_max)
    reader, columns = _read_header(lines)
    if columns.ignored:
        warn(_describe_ignored(columns.ignored))
    return _read_rows(lines, reader, columns)


def render_csv(plants: Sequence[NewPlant]) -> bytes:
    """Return plants as rows.

    Raises:
        OperationError: a plant has an empty tag. In CSV, this would mean no tag.

    """
    for plant in plants:
        if plant.tag == "":
            raise OperationError(
                f"CSV cannot hold the plant {plant.id}: its tag is empty, and in CSV an empty "
                f"cell means no tag. Export JSON lines instead"
            )
    text = io.StringIO(newline="")
    csv.writer(text).writerows((plant.id, plant.name, plant.tag) for plant in plants)
    return text.getvalue().encode()


def _read_header(lines: "_Lines") -> tuple[Iterator[list[str]], _Columns]:
    text = ""
    for separator in SEPARATORS:
        reader = csv.reader(lines, delimiter=separator, strict=True)
        with contextlib.suppress(csv.Error):
            if columns := _find_columns(next(reader, [])):
                lines.end_row()
                return reader, columns
        text = lines.rewind()
    if not text:
        raise OperationError("The file is empty")
    raise OperationError(
        "The first line of a CSV file must name the columns id and name, and may name tag; each "
        f'once, separated by commas, semicolons or tabs; got "{_shorten(text.rstrip())}"'
    )


def _find_columns(header: list[str]) -> _Columns | None:
    names = [name.lower() for name in header]
    if names.count("id") != 1 or names.count("name") != 1 or names.count("tag") > 1:
        return None
    ignored = [name for name in header if name.lower() not in COLUMNS]
    tag = names.index("tag") if "tag" in names else None
    return _Columns(len(names), names.index("id"), names.index("name"), tag, ignored)


def _describe_ignored(names: list[str]) -> str:
    shown = [
        f'"{name[:_NAMED_CHARACTERS_MAX]}{"..." if len(name) > _NAMED_CHARACTERS_MAX else ""}"'
        for name in names[:_NAMED_COLUMNS_MAX]
    ]
    if len(names) > _NAMED_COLUMNS_MAX:
        shown.append("...")
    subject = f"Column {shown[0]} is" if len(names) == 1 else f"Columns {', '.join(shown)} are"
    return f"{subject} ignored; known columns are id, name and tag"


def _shorten(text: str) -> str:
    if len(text) <= _QUOTED_CHARACTERS_MAX:
        return text
    return f"{text[:_QUOTED_CHARACTERS_MAX]}..."


def _read_rows(
    lines: "_Lines", reader: Iterable[list[str]], columns: _Columns
) -> Generator[Row, None, None]:
    parse = _parser(columns)
    with contextlib.closing(lines):
        while True:
            try:
                for cells in reader:
                    line, text, count = lines.end_row()
                    if cells:
                        yield Row(line, parse(cells), text, count)
            except csv.Error as error:
                too_large = isinstance(error, _RowTooLargeError)
                code = ErrorCode.BODY_TOO_LARGE if too_large else ErrorCode.INVALID_PLANT
                line, text, count = lines.give_up_row()
                yield Row(line, RequestError(code, f"The row is not CSV: {error}"), text, count)
            else:
                return


def _parser(columns: _Columns) -> Callable[[list[str]], NewPlant | RequestError]:
    """Return a function that makes a plant of the cells of a row."""
    number, id_at, name_at, tag_at, _ = columns

    def parse(cells: list[str]) -> NewPlant | RequestError:
        if len(cells) != number:
            message = f"The row has {len(cells)} cells, but the header has {number}"
            return RequestError(ErrorCode.INVALID_PLANT, message)
        name, tag = cells[name_at], "" if tag_at is None else cells[tag_at]
        try:
            if not (name.isascii() and tag.isascii()):
                (name + tag).encode()
            return make_new_plant(cells[id_at].encode(), name, tag or None)
        except UnicodeEncodeError:
            return RequestError(ErrorCode.UNSTORABLE_TEXT, "The row is not UTF-8")
        except RequestError as error:
            return error

    return parse


class _RowTooLargeError(csv.Error):
    """A row has more characters than the maximum."""


class _Lines:
    """The lines of a CSV file. It limits the size of a row, which `csv.reader` does not."""

    def __init__(self, file: Source, row_characters_max: int) -> None:
        # Bytes that are not UTF-8 become surrogates, so that only their row is an error.
        self._text = io.TextIOWrapper(
            file, encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        self._row_characters_max = row_characters_max
        self._begins = 1  # the number of the line that the row begins on
        self._row: list[str] = []
        self._characters = 0
        self._again: deque[str] = deque()  # lines to return once more
        # How many more characters may be returned once more.
        self._again_characters = _AGAIN_MAX * row_characters_max

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

    def end_row(self) -> tuple[int, str, int]:
        """End a row. Return the number of its first line, its text, and its number of lines."""
        began, row = self._begins, self._row
        self._begins += len(row)
        self._row = []
        self._again_characters += _AGAIN_MAX * self._characters
        self._characters = 0
        return began, row[0] if len(row) == 1 else "".join(row), len(row)

    def give_up_row(self) -> tuple[int, str, int]:
        """End the row with its first line, and return the other lines once more.

        If the limit for rereading is reached, the row has all of its lines.
        """
        first, *others = self._row
        characters = sum(map(len, others))
        if characters <= self._again_characters:
            self._again_characters -= characters
            self._again.extendleft(reversed(others))
            self._row = [first]
            self._characters = len(first)
        return self.end_row()

    def rewind(self) -> str:
        """Return the lines of the row once more, and return the first of them here."""
        row, self._row = self._row, []
        self._characters = 0
        self._again.extendleft(reversed(row))
        return row[0] if row else ""

    def close(self) -> None:
        """Detach from the file, which the caller closes."""
        self._text.detach()

    def _skip_line(self) -> None:
        while (rest := self._text.readline(self._row_characters_max)) and rest[-1] not in "\r\n":
            pass
