"""Plants as CSV (RFC 4180) with a header. An empty cell means no tag."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Final, NamedTuple, cast

from plantstore.errors import ErrorCode, OperationError, RequestError, quoted, shorten
from plantstore.formats.rows import RowParser, Rows, readable
from plantstore.plants import PLANT_BYTES_MAX, NewPlant, make_new_plant, try_make_plant

# The possible separators. A file uses the first one with which its header names the columns.
SEPARATORS: Final = (",", ";", "\t")

COLUMNS: Final = ("id", "name", "tag")

# How many ignored columns a warning names.
_NAMED_COLUMNS_MAX: Final = 5

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

_reader: Final = partial(csv.reader, strict=True)

# What is read after all lines. It is an empty row, or belongs to a row whose last quote is open.
_END: Final = ""


class _Columns(NamedTuple):
    """The separator, the number of cells in a row, and the positions of the plant's cells."""

    separator: str
    number: int
    id: int
    name: int
    tag: int | None

    def row_parser(self) -> Callable[[list[str]], NewPlant | None]:
        """Return a function that returns the plant of a row, or None if it is not valid."""
        _, number, id_at, name_at, tag_at = self

        def try_parse(cells: list[str]) -> NewPlant | None:
            if len(cells) != number:
                cells = self.fit(cells)
            if not cells or not _is_plain(cells[id_at]):
                return None
            tag = "" if tag_at is None or tag_at >= len(cells) else cells[tag_at]
            return try_make_plant(
                cells[id_at].encode(errors="replace"), cells[name_at], tag or None
            )

        return try_parse

    def fit(self, cells: list[str]) -> list[str]:
        """Return a row; nothing if it lacks its name, or has more text than the header.

        Spreadsheets leave out empty cells at the end of a row, or add some. So it may lack its tag.
        """
        has_name = len(cells) > max(self.id, self.name)
        return cells if has_name and _is_empty(cells[self.number :]) else []

    def make_plant(self, cells: list[str]) -> NewPlant:
        """Return the plant of a row.

        Raises:
            RequestError: the row is not valid.

        """
        if not (fitting := self.fit(cells)):
            cells_found = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"
            message = f"The row has {cells_found}, but the header has {self.number}"
            raise RequestError(ErrorCode.INVALID_PLANT, message)
        id_, name = fitting[self.id], fitting[self.name]
        tag = "" if self.tag is None or self.tag >= len(fitting) else fitting[self.tag]
        try:
            (id_ + name + tag).encode()
            if not _is_plain(id_) and _ROUNDED.fullmatch(id_):
                raise RequestError(ErrorCode.INVALID_PLANT, _DECIMALS.format(quoted(id_)))
            return make_new_plant(id_.encode(), name, tag or None)
        except UnicodeEncodeError:
            raise RequestError(ErrorCode.UNSTORABLE_TEXT, "The row is not UTF-8") from None


class CsvParser(RowParser):
    """Parses CSV. Rows without a text in any cell are skipped.

    The header must name `id` and `name`, and may name `tag`, in any order and any case. Other
    columns are ignored with a warning. A row that is not CSV ends where the module csv reports the
    error. An open quote reaches as far as a row of the maximum size; the next line is a new row.
    """

    def __init__(self, row_characters_max: int = PLANT_BYTES_MAX) -> None:
        super().__init__()
        self._row_characters_max = row_characters_max
        self._columns: _Columns | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._last_cr = ""  # a CR at the end of the piece before: a line feed may follow
        self._held = ""  # an incomplete row
        self._wanted_characters = 0
        self._skips_line = False
        self._lines = 0  # the number of lines that were parsed

    def _check(self, text: str | bytes) -> None:
        if len(text) > self._row_characters_max:
            message = f"The row is larger than {self._row_characters_max} characters"
            raise RequestError(ErrorCode.BODY_TOO_LARGE, message)
        text = text if isinstance(text, str) else text.decode()
        lines = io.StringIO(text, newline="").readlines()
        columns = cast("_Columns", self._columns)  # there is a row, so there was a header
        reader = _reader([*lines, _END], delimiter=columns.separator)
        try:
            columns.make_plant(next(reader))
        except csv.Error as error:
            is_open = reader.line_num > len(lines)
            reason = "it has a quote that is not closed" if is_open else error
            message = f"The row is not CSV: {reason}"
            raise RequestError(ErrorCode.INVALID_PLANT, message) from None

    def _parse(self, data: bytes, *, is_end: bool) -> Rows:
        self._add(data, is_end=is_end)
        # An incomplete row is read again from its beginning, so this waits for twice as much.
        if len(self._held) < self._wanted_characters and not is_end:
            return Rows()
        lines, rest = self._split(is_end=is_end)
        if self._columns is None:
            self._columns = self._read_header(lines, is_end=is_end)
        rows, done = Rows(), 0
        if self._columns is not None:
            rows, done = self._read_rows(self._columns, lines, is_end=is_end)
        self._lines += done
        self._held = "".join(lines[done:]) + rest
        is_waiting = done < len(lines)
        wanted = min(2 * len(self._held), self._row_characters_max + 1)
        self._wanted_characters = wanted if is_waiting else 0
        return rows

    def _add(self, data: bytes, *, is_end: bool) -> None:
        try:
            text = self._decoder.decode(data, is_end)
        except UnicodeDecodeError:
            # Bytes that are not UTF-8 become surrogates, so that only their row is an error.
            self._is_utf8 = False
            self._decoder.errors = "surrogateescape"
            text = self._decoder.decode(data, is_end)
        text = self._last_cr + text
        self._last_cr = "\r" if text.endswith("\r") and not is_end else ""
        self._held += text.removesuffix(self._last_cr)
        if self._skips_line:
            end = _LINE_END.search(self._held)
            self._held = self._held[end.end() :] if end else ""
            self._skips_line = end is None

    def _split(self, *, is_end: bool) -> tuple[list[str], str]:
        """Return the complete lines, and the beginning of the next one, if a row may be as large.

        Lines that are larger than a row are cut, and are still larger.
        """
        held, size_max = self._held, self._row_characters_max
        end = len(held) if is_end else max(held.rfind("\n"), held.rfind("\r")) + 1
        lines, rest = io.StringIO(held[:end], newline="").readlines(), held[end:]
        if len(rest) > size_max:
            lines.append(rest)
            rest = ""
            self._skips_line = True
        if len(held) > size_max:
            lines = [line[: size_max + 1] for line in lines]
        return lines, rest

    def _read_header(self, lines: list[str], *, is_end: bool) -> _Columns | None:
        """Remove the header from the lines; return None if it is not complete."""
        for separator in SEPARATORS:
            reader = _reader([*lines, _END], delimiter=separator)
            try:
                header = next(reader)
            except csv.Error:
                header = []
            end = reader.line_num
            fits = self._fitting(lines, 0, end) >= min(end, len(lines))
            if fits and end > len(lines) and not is_end:
                return None  # its quote may be closed in a line that has not arrived
            if fits and (columns := _find_columns(separator, header)):
                ignored = [readable(name) for name in header if _fold(name) not in COLUMNS]
                if ignored:
                    self._warnings.append(_describe_ignored(ignored))
                self.lacks_tags = columns.tag is None
                self._lines = end
                del lines[:end]
                return columns
        if not lines:
            raise OperationError("The file is empty")
        raise OperationError(
            "The first line of a CSV file must name the columns id and name, and may name tag; each"
            " once, separated by commas, semicolons or tabs; got "
            f"{quoted(lines[0].rstrip(), _QUOTED_CHARACTERS_MAX)}"
        )

    def _read_rows(self, columns: _Columns, lines: list[str], *, is_end: bool) -> tuple[Rows, int]:
        """Return the rows of lines, and the number of these lines.

        The last lines are not read if their row may end in lines that have not arrived.
        """
        rows = Rows()
        add_first, add_last = rows.first_lines.append, rows.last_lines.append
        add_plant, add_text = rows.items.append, rows.texts.append
        try_parse, size_max = columns.row_parser(), self._row_characters_max
        count, lines = len(lines), [*lines, _END]
        begin = first = 0  # the first line of the row, and of the reader
        reader = _reader(lines, delimiter=columns.separator)
        while True:
            try:
                for cells in reader:
                    end = first + reader.line_num
                    text = lines[begin] if end - begin == 1 else "".join(lines[begin:end])
                    if len(text) > size_max:
                        break
                    plant = try_parse(cells)
                    if plant is not None or not _is_empty(cells):
                        add_first(self._lines + begin + 1)
                        add_last(self._lines + end)
                        add_plant(plant)
                        add_text(text)
                    begin = end
                else:
                    return rows, count
            except csv.Error:
                end = first + reader.line_num
            # The row is not CSV, too large, or open. What does not fit into a row is read again.
            fitting = self._fitting(lines, begin, end)
            if fitting == end > count and not is_end:
                return rows, begin
            done = min(max(fitting, begin + 1), count)
            add_first(self._lines + begin + 1)
            add_last(self._lines + done)
            add_plant(None)
            add_text("".join(lines[begin:done]))
            begin = done
            if done < end:
                first = begin
                reader = _reader(lines[begin:], delimiter=columns.separator)

    def _fitting(self, lines: list[str], begin: int, end: int) -> int:
        """Return how far these lines are together no larger than a row."""
        sizes = accumulate(map(len, lines[begin:end]))
        return begin + sum(size <= self._row_characters_max for size in sizes)


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
    names = [*map(_fold, header)]
    if names.count("id") != 1 or names.count("name") != 1 or names.count("tag") > 1:
        return None
    tag = names.index("tag") if "tag" in names else None
    return _Columns(separator, len(names), names.index("id"), names.index("name"), tag)


def _fold(name: str) -> str:
    """Return the name of a column without spaces around it, in lower case."""
    return name.strip().lower()


def _is_empty(cells: list[str]) -> bool:
    return not "".join(cells).strip()


def _is_plain(id_: str) -> bool:
    """Return whether an id may be digits, with or without a minus sign."""
    return id_.lstrip("-").isdigit()


def _describe_ignored(names: list[str]) -> str:
    shown = [f'"{shorten(name)}"' for name in names[:_NAMED_COLUMNS_MAX]]
    if len(names) > _NAMED_COLUMNS_MAX:
        shown.append("...")
    subject = f"Column {shown[0]} is" if len(names) == 1 else f"Columns {', '.join(shown)} are"
    return f"{subject} ignored; known columns are id, name and tag"
