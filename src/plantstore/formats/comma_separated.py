"""Plants as CSV (RFC 4180) with a header. An empty cell means no tag."""

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, cast

from plantstore.errors import ErrorCode, OperationError, RequestError, quoted, shorten
from plantstore.formats.rows import Rows, readable, require_not_utf16, warn_of_encoding
from plantstore.plants import PLANT_BYTES_MAX, NewPlant, find_plant_of, make_new_plant

# The possible separators. A file uses the first one with which its header names the columns.
SEPARATORS: Final = (",", ";", "\t")

COLUMNS: Final = ("id", "name", "tag")

# How many ignored columns a warning names.
_NAMED_COLUMNS_MAX: Final = 5

# The lines of a row that is not CSV are read again. This limits the characters that are read again,
# as a multiple of those of the file and one row of the maximum size. Without the limit, a file in
# which each line opens a quote would take a time that grows with the square of its size.
_AGAIN_MAX: Final = 4

# How much of an invalid header an error message quotes.
_QUOTED_CHARACTERS_MAX: Final = 100


# An id with decimals or an exponent. Spreadsheets write a rounded number so, in many countries with
# a comma. JSON allows such integers, but here it would be the id of another plant.
_ROUNDED: Final = re.compile(r"-?\d+(?:[.,]\d*)?(?:[eE][-+]?\d+)?", re.ASCII)
_DECIMALS: Final = (
    "`id` must have no decimals and no exponent, got {}: format the column as a number without"
    " decimals, and save the file again"
)

_LINE_END: Final = re.compile(r"\r\n?|\n")


class _Columns(NamedTuple):
    """The separator, the number of cells in a row, and the positions of the plant's cells."""

    separator: str
    number: int
    id: int
    name: int
    tag: int | None

    def reader(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Return a reader of the cells of each row."""
        return csv.reader(lines, delimiter=self.separator, strict=True)

    def finder(self) -> Callable[[list[str]], NewPlant | None]:
        """Return a function that returns the plant of a row, or None if it is not valid."""
        _, number, id_at, name_at, tag_at = self

        def find_plant(cells: list[str]) -> NewPlant | None:
            if len(cells) != number or not _is_plain(cells[id_at]):
                return None
            tag = "" if tag_at is None else cells[tag_at]
            return find_plant_of(cells[id_at].encode(errors="replace"), cells[name_at], tag or None)

        return find_plant

    def make_plant(self, cells: list[str]) -> NewPlant:
        """Return the plant of a row.

        Raises:
            RequestError: the row is not valid.

        """
        if len(cells) != self.number:
            cells_found = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
            message = f"The row has {cells_found}, but the header has {self.number}"
            raise RequestError(ErrorCode.INVALID_PLANT, message)
        name, tag = cells[self.name], "" if self.tag is None else cells[self.tag]
        try:
            (cells[self.id] + name + tag).encode()
            if not _is_plain(id_ := cells[self.id]) and _ROUNDED.fullmatch(id_):
                raise RequestError(ErrorCode.INVALID_PLANT, _DECIMALS.format(quoted(id_)))
            return make_new_plant(id_.encode(), name, tag or None)
        except UnicodeEncodeError:
            raise RequestError(ErrorCode.UNSTORABLE_TEXT, "The row is not UTF-8") from None


class CsvParser:
    """Parses CSV. Blank lines are skipped. The methods are those of `RowParser`.

    The header must name `id` and `name`, and may name `tag`, in any order and any case. Other
    columns are ignored with a warning. If a row is not CSV or is too large, its first line is
    an error, and the next line is read as a new row. So an open quote affects only its own row.
    But in a file with very many such rows, all lines of a row may be one error.

    Args:
        row_characters_max: size of a row.

    """

    def __init__(self, row_characters_max: int = PLANT_BYTES_MAX) -> None:
        csv.field_size_limit(row_characters_max)
        self.warnings: list[str] = []
        self._row_characters_max = row_characters_max
        self._columns: _Columns | None = None
        self.lacks_tags = False
        # Bytes that are not UTF-8 become surrogates, so that only their row is an error.
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._last_cr = ""  # a CR at the end of the piece before: a line feed may follow
        self._held = ""  # an incomplete row
        self._wanted_characters = 0
        self._skips_line = False
        self._lines = 0  # the number of lines that were parsed
        # How many characters were read, and how many of them were read again.
        self._characters = 0
        self._characters_again = 0

    def feed(self, data: bytes) -> Rows:
        """Return the rows that are complete now.

        Raises:
            OperationError: the header does not name the columns.

        """
        self._add(data)
        # An incomplete row is read again from its beginning, so this waits for twice as much.
        if len(self._held) < self._wanted_characters:
            return Rows()
        end = max(self._held.rfind("\n"), self._held.rfind("\r")) + 1
        return self._parse(end, is_end=False)

    def finish(self) -> Rows:
        """Return the last rows.

        Raises:
            OperationError: the file is empty, or the header does not name the columns.

        """
        self._add(b"", is_end=True)
        return self._parse(len(self._held), is_end=True)

    def explain(self, text: str | bytes) -> RequestError:
        """Return the error of a row."""
        if readable(text) != text:
            warn_of_encoding(self.warnings)
        if len(text) > self._row_characters_max:
            message = f"The row is larger than {self._row_characters_max} characters"
            return RequestError(ErrorCode.BODY_TOO_LARGE, message)
        lines = io.StringIO(text if isinstance(text, str) else text.decode(), newline="")
        columns = cast("_Columns", self._columns)  # there is a row, so there was a header
        try:
            [cells] = columns.reader(lines)
            columns.make_plant(cells)
        except csv.Error as error:
            return RequestError(ErrorCode.INVALID_PLANT, f"The row is not CSV: {error}")
        except RequestError as error:
            return error.with_traceback(None)
        raise AssertionError("The row is valid")

    def _add(self, data: bytes, *, is_end: bool = False) -> None:
        text = self._last_cr + self._decoder.decode(data, is_end)
        self._last_cr = "\r" if text.endswith("\r") and not is_end else ""
        text = text.removesuffix(self._last_cr)
        self._characters += len(text)
        self._held += text
        if self._skips_line:
            end = _LINE_END.search(self._held)
            self._held = self._held[end.end() :] if end else ""
            self._skips_line = end is None

    def _parse(self, end: int, *, is_end: bool) -> Rows:
        """Parse the lines up to this position, which are complete."""
        text, rest = self._held[:end], self._held[end:]
        lines = io.StringIO(text, newline="").readlines()
        size_max = self._row_characters_max
        if len(rest) > size_max:
            lines.append(rest)
            rest = ""
            self._skips_line = True
        if len(self._held) > size_max:
            lines = [line[: size_max + 1] for line in lines]
        may_grow = not is_end and len(self._held) <= size_max
        if self._columns is None:
            self._columns = self._read_header(lines, rest, may_grow=may_grow)
            if self._columns is None:
                return Rows()
        rows, done = self._read_rows(self._columns, lines, rest, is_end=is_end)
        self._lines += done
        self._held = "".join(lines[done:]) + rest
        is_waiting = done < len(lines)
        self._wanted_characters = min(2 * len(self._held), size_max + 1) if is_waiting else 0
        return rows

    def _read_header(self, lines: list[str], rest: str, *, may_grow: bool) -> _Columns | None:
        """Remove the header from the lines; return None if it is not complete."""
        text = lines[0] if lines else rest
        require_not_utf16(text[:4].encode(errors="surrogateescape"))
        is_open = not lines
        for separator in SEPARATORS:
            reader = csv.reader(lines, delimiter=separator, strict=True)
            try:
                header = next(reader, [])
            except csv.Error:
                is_open |= reader.line_num == len(lines)
                continue
            if columns := _find_columns(separator, header):
                ignored = [readable(name) for name in header if name.lower() not in COLUMNS]
                if ignored:
                    self.warnings.append(_describe_ignored(ignored))
                if readable(named := "".join(header)) != named:
                    warn_of_encoding(self.warnings)
                self.lacks_tags = columns.tag is None
                self._lines = reader.line_num
                del lines[: self._lines]
                return columns
        if is_open and may_grow:
            return None
        if not text:
            raise OperationError("The file is empty")
        raise OperationError(
            "The first line of a CSV file must name the columns id and name, and may name tag; each"
            " once, separated by commas, semicolons or tabs; got "
            f"{quoted(text.rstrip(), _QUOTED_CHARACTERS_MAX)}"
        )

    def _read_rows(
        self, columns: _Columns, lines: list[str], rest: str, *, is_end: bool
    ) -> tuple[Rows, int]:
        """Return the rows of lines, and the number of these lines.

        The last lines are not read if their row may end in lines that have not arrived.
        """
        rows = Rows()
        add_first, add_last = rows.first_lines.append, rows.last_lines.append
        add_plant, add_text = rows.plants.append, rows.texts.append
        find_plant, size_max = columns.finder(), self._row_characters_max
        begin = 0  # the first line of the row
        unread: deque[str | None] = deque([*lines, None])
        reader = columns.reader(iter(unread.popleft, None))
        while True:
            try:
                for cells in reader:
                    end = len(lines) - len(unread) + 1
                    text = lines[begin] if end - begin == 1 else self._joined(lines[begin:end])
                    if cells:
                        add_first(self._lines + begin + 1)
                        add_last(self._lines + end)
                        add_plant(find_plant(cells) if len(text) <= size_max else None)
                        add_text(text)
                    begin = end
                break
            except csv.Error:
                if not unread:
                    if not is_end and self._may_end_later(lines[begin:], rest):
                        break
                    unread.append(None)
                    reader = columns.reader(iter(unread.popleft, None))
                begin = self._reject(rows, lines, begin, unread)
        return rows, begin

    def _reject(self, rows: Rows, lines: list[str], begin: int, unread: deque[str | None]) -> int:
        """Add a row that is not CSV: its first line. Its other lines are read again.

        Returns:
            The first line of the next row.

        """
        end = len(lines) - len(unread) + 1
        if self._may_read_again(again := lines[end - 1 : begin : -1]):
            unread.extendleft(again)
            end = begin + 1
        rows.first_lines.append(self._lines + begin + 1)
        rows.last_lines.append(self._lines + end)
        rows.plants.append(None)
        rows.texts.append("".join(lines[begin:end]))
        return end

    def _joined(self, lines: list[str]) -> str:
        """Return the text of a row of several lines.

        Raises:
            csv.Error: it is too large.

        """
        text = "".join(lines)
        if len(text) > self._row_characters_max:
            raise csv.Error
        return text

    def _may_end_later(self, lines: list[str], rest: str) -> bool:
        """Return whether a row may end after these lines and the rest."""
        return sum(map(len, lines)) + len(rest) <= self._row_characters_max

    def _may_read_again(self, lines: list[str]) -> bool:
        """Return whether lines may be read once more."""
        # For one line, this takes half the time of a sum.
        self._characters_again += len("".join(lines))
        return self._characters_again <= _AGAIN_MAX * (self._characters + self._row_characters_max)


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


def _find_columns(separator: str, header: list[str]) -> _Columns | None:
    names = [name.lower() for name in header]
    if names.count("id") != 1 or names.count("name") != 1 or names.count("tag") > 1:
        return None
    tag = names.index("tag") if "tag" in names else None
    return _Columns(separator, len(names), names.index("id"), names.index("name"), tag)


def _is_plain(id_: str) -> bool:
    """Return whether an id may be digits, with or without a minus sign."""
    return id_.lstrip("-").isdigit()


def _describe_ignored(names: list[str]) -> str:
    shown = [f'"{shorten(name)}"' for name in names[:_NAMED_COLUMNS_MAX]]
    if len(names) > _NAMED_COLUMNS_MAX:
        shown.append("...")
    subject = f"Column {shown[0]} is" if len(names) == 1 else f"Columns {', '.join(shown)} are"
    return f"{subject} ignored; known columns are id, name and tag"
