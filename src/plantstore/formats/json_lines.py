"""Plants as JSON lines: one NewPlant on each line. Every plant can be written."""

import codecs
from collections.abc import Callable, Generator
from typing import BinaryIO

import msgspec

from plantstore.errors import ErrorCode, RequestError
from plantstore.formats.rows import Row
from plantstore.plants import parse_new_plant

render_json_lines = msgspec.json.Encoder().encode_lines


def read_json_lines(
    file: BinaryIO,
    row_bytes_max: int,
    _warn: Callable[[str], None],
) -> Generator[Row, None, None]:
    """Yield the rows of a file. Blank lines are skipped, and too large lines are errors."""
    number = 0
    while line := file.readline(row_bytes_max):
        number += 1
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) == row_bytes_max and not line.endswith(b"\n"):
            yield _too_large(number, line, row_bytes_max)
            while line and not line.endswith(b"\n"):
                line = file.readline(row_bytes_max)
            continue
        if line.isspace():
            continue
        try:
            yield Row(number, parse_new_plant(line), line)
        except RequestError as error:
            yield Row(number, error, line)


def _too_large(number: int, line: bytes, row_bytes_max: int) -> Row:
    message = f"The row is larger than {row_bytes_max} bytes"
    error = RequestError(ErrorCode.BODY_TOO_LARGE, message)
    return Row(number, error, line)
