"""Plants as JSON lines: a NewPlant a line. They hold every plant."""

import codecs
from collections.abc import Generator
from typing import BinaryIO

import msgspec

from plantstore.errors import ErrorCode, RequestError
from plantstore.formats.rows import Reject, Row
from plantstore.plants import parse_new_plant

render_json_lines = msgspec.json.Encoder().encode_lines


def read_json_lines(file: BinaryIO, row_bytes_max: int) -> Generator[Row, None, None]:
    """Yield the rows of a file; a blank line is none, and a larger one is refused."""
    number = 0
    while line := file.readline(row_bytes_max):
        number += 1
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) == row_bytes_max and not line.endswith(b"\n"):
            yield number, _too_large(line, row_bytes_max)
            while line and not line.endswith(b"\n"):
                line = file.readline(row_bytes_max)
            continue
        try:
            if not line.isspace():
                yield number, parse_new_plant(line)
        except RequestError as error:
            yield number, Reject(error, line.decode(errors="replace"))


def _too_large(line: bytes, row_bytes_max: int) -> Reject:
    message = f"The row is larger than {row_bytes_max} bytes"
    return Reject(RequestError(ErrorCode.BODY_TOO_LARGE, message), line.decode(errors="replace"))
