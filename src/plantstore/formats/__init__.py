"""Plants as rows of a file. All text is UTF-8.

What comes in is validated as a request is. What goes out comes in again as it was, but
for what a format cannot hold, which it refuses.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from plantstore.formats.comma_separated import read_csv, render_csv
from plantstore.formats.json_lines import read_json_lines, render_json_lines
from plantstore.formats.rows import Row
from plantstore.plants import NewPlant


class Format(NamedTuple):
    """How plants are read from a file and written to one.

    `read` yields the rows of a file, which it leaves open; close it if you leave it
    early. A row may have as many bytes, or characters, as it is told. `head` begins
    a file, and `render` writes plants as rows of it.
    """

    read: Callable[[BinaryIO, int], Generator[Row, None, None]]
    head: bytes
    render: Callable[[Sequence[NewPlant]], bytes]


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "csv": Format(read_csv, b"id,name,tag\r\n", render_csv),
        "jsonl": Format(read_json_lines, b"", render_json_lines),
    }
)
