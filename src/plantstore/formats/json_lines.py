"""Plants as JSON lines: one NewPlant on each line. Every plant can be written."""

import codecs
import io

import msgspec

from plantstore.errors import ErrorCode, RequestError
from plantstore.formats.rows import Rows, require_not_utf16, warn_of_encoding
from plantstore.plants import (
    PLANT_BYTES_MAX,
    NewPlant,
    find_new_plant,
    parse_unusual_plant,
    parse_usual_plants,
)

render_json_lines = msgspec.json.Encoder().encode_lines


class JsonLinesParser:
    """Parses JSON lines. Blank lines are skipped. The methods are those of `RowParser`.

    All complete lines of a piece are parsed together.

    Args:
        row_bytes_max: size of a row, without its line end.

    """

    lacks_tags = False  # a line is a whole NewPlant

    def __init__(self, row_bytes_max: int = PLANT_BYTES_MAX) -> None:
        self.warnings: list[str] = []
        self._row_bytes_max = row_bytes_max
        self._line_bytes_max = row_bytes_max + len(b"\r\n")
        self._held = b""
        self._lines = 0  # the number of lines that were parsed
        self._skips_line = False

    def feed(self, data: bytes) -> Rows:
        """Return the rows of the complete lines."""
        if self._skips_line:
            _, end, data = data.partition(b"\n")
            self._skips_line = not end
        complete, end, rest = data.rpartition(b"\n")
        if end:
            complete = b"".join((self._held, complete, end))
            self._held = rest
        else:
            self._held += rest
            if len(self._held) > self._line_bytes_max:
                # The beginning of the line is enough for an error. The rest of it is skipped.
                complete, self._held = self._held, b""
                self._skips_line = True
        return self._parse(complete)

    def finish(self) -> Rows:
        """Return the row of the last line, if it has no line end."""
        last, self._held = self._held, b""
        return self._parse(last)

    def explain(self, text: str | bytes) -> RequestError:
        """Return the error of a row."""
        line = text.encode() if isinstance(text, str) else text
        if not self._fits(line):
            message = f"The row is larger than {self._row_bytes_max} bytes"
            return RequestError(ErrorCode.BODY_TOO_LARGE, message)
        try:
            line.decode()
        except UnicodeDecodeError:
            warn_of_encoding(self.warnings)
        try:
            parse_unusual_plant(line)
        except RequestError as error:
            return error.with_traceback(None)
        raise AssertionError("The row is valid")

    def _parse(self, text: bytes) -> Rows:
        if self._lines == 0:
            require_not_utf16(text)
            text = text.removeprefix(codecs.BOM_UTF8)
        lines = io.BytesIO(text).readlines()
        first = self._lines + 1
        self._lines += len(lines)
        numbers = [*range(first, first + len(lines))]
        if len(text) > self._row_bytes_max:
            lines = [line[: self._line_bytes_max + 1] for line in lines]
        elif (plants := parse_usual_plants(text, lines)) is not None:
            return Rows(numbers, numbers, [*plants], [*lines])
        numbers = [
            number
            for number, line in zip(numbers, lines, strict=True)
            if not line.isspace() or not self._fits(line)
        ]
        if len(numbers) < len(lines):
            lines = [lines[number - first] for number in numbers]
        return Rows(numbers, numbers, [self._find(line) for line in lines], [*lines])

    def _find(self, line: bytes) -> NewPlant | None:
        return find_new_plant(line) if self._fits(line) else None

    def _fits(self, line: bytes) -> bool:
        return len(line.rstrip(b"\r\n")) <= self._row_bytes_max
