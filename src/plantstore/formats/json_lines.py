"""Plants as JSON lines: one NewPlant on each line. Every plant can be written."""

import codecs
import io
from collections.abc import Callable, Generator, Iterator
from itertools import count

import msgspec

from plantstore.errors import ErrorCode, RequestError
from plantstore.formats.rows import Row, Source
from plantstore.plants import parse_new_plant, parse_usual_plants

render_json_lines = msgspec.json.Encoder().encode_lines


def read_json_lines(
    file: Source,
    row_bytes_max: int,
    _warn: Callable[[str], None],
) -> Generator[Row, None, None]:
    """Yield the rows of a file. Blank lines are skipped, and too large lines are errors.

    All complete lines in the buffer of the file are parsed together.
    """
    number = 1
    while text := _next_lines(file, row_bytes_max, is_start=number == 1):
        if len(text) == row_bytes_max and not text.endswith(b"\n"):
            yield _too_large(number, text, row_bytes_max)
            _skip_line(file, row_bytes_max)
            number += 1
            continue
        if number == 1:
            text = text.removeprefix(codecs.BOM_UTF8)
        lines = io.BytesIO(text).readlines()
        plants = parse_usual_plants(text, lines)
        if plants is None:
            yield from _parse_each(number, lines)
        else:
            yield from map(Row, count(number), plants, lines)
        number += len(lines)


def _next_lines(file: Source, bytes_max: int, *, is_start: bool) -> bytes:
    """Return the lines in the buffer, or the next line, or the beginning of a larger line."""
    size = 0 if is_start else file.peek().rfind(b"\n", 0, bytes_max) + 1
    return file.read(size) if size else file.readline(bytes_max)


def _skip_line(file: Source, bytes_max: int) -> None:
    while (rest := file.readline(bytes_max)) and not rest.endswith(b"\n"):
        pass


def _parse_each(first: int, lines: list[bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, first):
        if line.isspace():
            continue
        # A variable for the error would keep this frame alive, and with it the lines.
        try:
            plant = parse_new_plant(line)
        except RequestError as error:
            yield Row(number, error, line)
        else:
            yield Row(number, plant, line)


def _too_large(number: int, line: bytes, row_bytes_max: int) -> Row:
    message = f"The row is larger than {row_bytes_max} bytes"
    error = RequestError(ErrorCode.BODY_TOO_LARGE, message)
    return Row(number, error, line)
