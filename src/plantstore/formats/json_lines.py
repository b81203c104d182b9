"""JSON lines: of plants, one NewPlant on each line, and of changes, one Swap on each.

Every plant can be written.
"""

import io
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from plantstore.changes import Swap
from plantstore.errors import ErrorCode, OperationError, RequestError
from plantstore.formats.rows import Item, RowParser, Rows, is_utf8
from plantstore.plants import (
    PLANT_BYTES_MAX,
    NewPlant,
    Plant,
    check_size,
    check_storable,
    parse_id,
    parse_row,
    parse_rows_fast,
    read_json,
    try_parse_row,
)

render_json_lines = msgspec.json.Encoder().encode_lines


class JsonLinesParser(RowParser):
    """Parses JSON lines. Blank lines are skipped.

    All complete lines of a piece are parsed together. A subclass may parse other items than plants.

    Args:
        row_bytes_max: size of a row, without its line end.

    """

    _what = "plant"

    def __init__(self, row_bytes_max: int = PLANT_BYTES_MAX) -> None:
        super().__init__()
        self._row_bytes_max = row_bytes_max
        self._line_bytes_max = row_bytes_max + len(b"\r\n")
        self._held = b""
        self._lines = 0  # the number of lines that were parsed
        self._skips_line = False
        self._is_blank = True

    def _check(self, text: str | bytes) -> None:
        line = text.encode() if isinstance(text, str) else text
        if not self._fits(line):
            message = f"The row is larger than {self._row_bytes_max} bytes"
            raise RequestError(ErrorCode.BODY_TOO_LARGE, message)
        self._parse_line(line)

    def _parse_line(self, line: bytes) -> Item:
        """Parse a line that is not too large.

        Raises:
            RequestError: it is not valid.

        """
        return parse_row(line)

    def _try_line(self, line: bytes) -> Item | None:
        """Return the item that `_parse_line` returns, or None if it raises an error."""
        return try_parse_row(line)

    def _try_lines(self, text: bytes, lines: list[bytes]) -> Sequence[Item] | None:
        """Return the items of a text if all lines are valid and of the usual form, or else None."""
        return parse_rows_fast(text, lines)

    def _parse(self, data: bytes, *, is_end: bool) -> Rows:
        if self._is_blank and (content := data.lstrip()):
            self._is_blank = False
            if content.startswith(b"["):
                raise OperationError(
                    f"The file is a JSON array: write one {self._what} on each line, without"
                    f" brackets and without commas between the {self._what}s"
                )
        if self._skips_line:
            _, end, data = data.partition(b"\n")
            self._skips_line = not end
        complete, end, rest = data.rpartition(b"\n")
        if end:
            complete = b"".join((self._held, complete, end))
            self._held = rest
        else:
            self._held += rest
        if is_end or len(self._held) > self._line_bytes_max:
            # The beginning of a line is enough for an error. The rest of it is skipped.
            complete += self._held
            self._held = b""
            self._skips_line = True
        return self._read_lines(complete)

    def _read_lines(self, text: bytes) -> Rows:
        lines = io.BytesIO(text).readlines()
        first = self._lines + 1
        self._lines += len(lines)
        numbers = [*range(first, first + len(lines))]
        if max(map(len, lines), default=0) > self._row_bytes_max:
            lines = [line[: self._line_bytes_max + 1] for line in lines]
        elif (items := self._try_lines(text, lines)) is not None:
            return Rows(numbers, numbers, [*items], [*lines])
        numbers = [
            number
            for number, line in zip(numbers, lines, strict=True)
            if not line.isspace() or not self._fits(line)
        ]
        if len(numbers) < len(lines):
            lines = [lines[number - first] for number in numbers]
        return Rows(numbers, numbers, [self._find(line) for line in lines], [*lines])

    def _find(self, line: bytes) -> Item | None:
        if not self._fits(line):
            return None
        item = self._try_line(line)
        if item is None and self._is_utf8:
            self._is_utf8 = is_utf8(line)
        return item

    def _fits(self, line: bytes) -> bool:
        return len(line.removesuffix(b"\n").removesuffix(b"\r")) <= self._row_bytes_max


# Maximum size of a change: that of two plants, and some white space.
CHANGE_BYTES_MAX: Final = 2 * PLANT_BYTES_MAX + 1024

# The size of the shortest change: {"id":0,"after":null}
_CHANGE_BYTES_MIN: Final = 21


class _ChangeBody(msgspec.Struct, gc=False):
    """The members of a line that are read. The id stays text: a float would round it."""

    id: msgspec.Raw
    after: Plant | None
    before: Plant | msgspec.UnsetType | None = msgspec.UNSET


_decode_change = msgspec.json.Decoder(_ChangeBody).decode


def parse_swap(line: bytes) -> Swap:
    """Parse a line. As in files, a tag may be null: it is missing. Other members are ignored.

    Raises:
        RequestError: NOT_JSON, INVALID_PLANT, UNSTORABLE_TEXT or BODY_TOO_LARGE.

    """
    members = read_json(line, _decode_change)
    id_, before, after = parse_id(bytes(members.id)), members.before, members.after
    if before is None and after is None:
        message = "`before` and `after` must not both be null"
        raise RequestError(ErrorCode.INVALID_PLANT, message)
    if isinstance(before, Plant):
        check_storable(before.name, before.tag, "before.")
    if after is not None:
        check_storable(after.name, after.tag, "after.")
        check_size(NewPlant(id_, after.name, after.tag))
    return Swap(id_, before, after)


class ChangeLinesParser(JsonLinesParser):
    """Parses JSON lines of changes.

    Args:
        permit: raises the RequestError of a valid change that is not permitted.

    """

    _what = "change"

    def __init__(self, permit: Callable[[Swap], None]) -> None:
        super().__init__(CHANGE_BYTES_MAX)
        self._permit = permit

    def _parse_line(self, line: bytes) -> Swap:
        swap = parse_swap(line)
        self._permit(swap)
        return swap

    def _try_line(self, line: bytes) -> Swap | None:
        if len(line) < _CHANGE_BYTES_MIN:
            return None
        try:
            return self._parse_line(line)
        except RequestError:
            return None

    def _try_lines(self, text: bytes, lines: list[bytes]) -> None:  # noqa: ARG002
        return None
