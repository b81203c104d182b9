"""Plants as rows of a file: CSV (RFC 4180) with a header, or JSON lines. All text is UTF-8.

What comes in is validated as a request is. What goes out comes in again as it was:
JSON lines hold every plant; CSV holds every one but those with an empty tag, since
in CSV an empty cell means no tag.
"""

import contextlib
import csv
import io
from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple, Self, TypeAlias

import msgspec

from plantstore.errors import ErrorCode, RequestError, UsageError
from plantstore.plants import NewPlant, make_new_plant, parse_new_plant

# A row may be as large as the body of a request may be by default. What is larger is
# skipped to the end of its line.
ROW_CHARACTERS_MAX: Final = 1024 * 1024


class Reject(NamedTuple):
    """A row that is no plant: why, and its text, which may be cut short."""

    error: RequestError
    text: str


# The number of the line that a row begins on, from 1, and what it holds.
Row: TypeAlias = tuple[int, NewPlant | Reject]


class Format(NamedTuple):
    """How plants are read from a file and written to one.

    `read` yields the rows of a file, which it leaves open; close it if you leave it
    early. `head` begins a file, and `render` writes plants as rows of it.
    """

    read: Callable[[BinaryIO], Generator[Row, None, None]]
    head: bytes
    render: Callable[[Sequence[NewPlant]], bytes]


def _read_csv(file: BinaryIO) -> Generator[Row, None, None]:
    """Yield the rows of a CSV file; a blank line is none.

    The header must name `id` and `name`, and may name `tag`; other columns are
    passed over, as other members of a request are. A row that breaks the rules of
    CSV ends with its line.

    Raises:
        UsageError: the header is not that of plants.

    """
    csv.field_size_limit(ROW_CHARACTERS_MAX)
    with contextlib.closing(_Lines(file)) as lines:
        reader = csv.reader(lines, strict=True)
        try:
            parse = _parser_of_cells(next(reader, []))
        except csv.Error as error:
            raise UsageError(f"The header of the file is no CSV: {error}") from None
        lines.end_row()
        while True:
            try:
                for cells in reader:
                    line = lines.end_row()
                    if cells:
                        yield line, parse(cells)
            except csv.Error as error:
                too_large = isinstance(error, _RowTooLargeError)
                code = ErrorCode.BODY_TOO_LARGE if too_large else ErrorCode.INVALID_PLANT
                refusal = RequestError(code, f"The row is no CSV: {error}")
                text = lines.last
                yield lines.end_row(), Reject(refusal, text)
            else:
                return


class _RowTooLargeError(csv.Error):
    """A row has more characters than may be held."""


class _Lines:
    """The lines of a CSV file, counted, for a reader that would hold a row of any size."""

    def __init__(self, file: BinaryIO) -> None:
        # What is no UTF-8 comes as surrogates, so that it can be told of the row.
        self._text = io.TextIOWrapper(
            file, encoding="utf-8-sig", errors="surrogateescape", newline=""
        )
        self._readline = self._text.readline
        self._lines = 0
        self._row_begins = 1
        self._row_characters = 0
        self.last = ""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        self.last = line = self._readline(ROW_CHARACTERS_MAX)
        if not line:
            raise StopIteration
        self._lines += 1
        self._row_characters += len(line)
        if self._row_characters >= ROW_CHARACTERS_MAX:
            while line and line[-1] not in "\r\n":
                line = self._readline(ROW_CHARACTERS_MAX)
            raise _RowTooLargeError(f"it is larger than {ROW_CHARACTERS_MAX} characters")
        return line

    def close(self) -> None:
        """Let go of the file, which is the caller's to close."""
        self._text.detach()

    def end_row(self) -> int:
        """Return the number of the line on which the row began that has just been read."""
        began, self._row_begins = self._row_begins, self._lines + 1
        self._row_characters = 0
        return began


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


def _render_csv(plants: Sequence[NewPlant]) -> bytes:
    for plant in plants:
        if plant.tag == "":
            raise UsageError(
                f"CSV cannot hold the plant {plant.id}: its tag is empty, and in CSV an empty "
                f"cell means no tag. Export JSON lines instead"
            )
    return _to_csv([(plant.id, plant.name, plant.tag) for plant in plants]).encode()


def _to_csv(rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue()


def _read_json_lines(file: BinaryIO) -> Generator[Row, None, None]:
    """Yield the rows of a file of JSON lines; a blank line is none."""
    number = 0
    while line := file.readline(ROW_CHARACTERS_MAX):
        number += 1
        if len(line) == ROW_CHARACTERS_MAX and not line.endswith(b"\n"):
            text = line.decode(errors="replace")
            while line and not line.endswith(b"\n"):
                line = file.readline(ROW_CHARACTERS_MAX)
            message = f"The row is larger than {ROW_CHARACTERS_MAX} bytes"
            yield number, Reject(RequestError(ErrorCode.BODY_TOO_LARGE, message), text)
            continue
        try:
            if not line.isspace():
                yield number, parse_new_plant(line)
        except RequestError as error:
            yield number, Reject(error, line.decode(errors="replace"))


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "csv": Format(_read_csv, b"id,name,tag\r\n", _render_csv),
        "jsonl": Format(_read_json_lines, b"", msgspec.json.Encoder().encode_lines),
    }
)
