"""Files of plants: CSV and JSON lines, in UTF-8.

Rows are validated like requests. Importing an export restores exactly the same plants. The
export fails if a plant cannot be written in the format.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from plantstore.formats.comma_separated import read_csv, render_csv
from plantstore.formats.json_lines import read_json_lines, render_json_lines
from plantstore.formats.rows import Row, Source
from plantstore.plants import NewPlant


class Format(NamedTuple):
    """A file format for plants.

    `read` yields the rows of a file. Its arguments are the file, which it leaves open, the
    maximum size of a row in bytes or characters, and a function that it calls with each
    warning. Close the generator if you do not read it to its end. `head` is the beginning of
    a file; `render` returns plants as rows.
    """

    read: Callable[[Source, int, Callable[[str], None]], Generator[Row, None, None]]
    head: bytes
    render: Callable[[Sequence[NewPlant]], bytes]


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "csv": Format(read_csv, b"id,name,tag\r\n", render_csv),
        "jsonl": Format(read_json_lines, b"", render_json_lines),
    }
)

# The format of each media type. Both names of JSON lines are in use; neither is registered.
MEDIA_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"application/x-ndjson": "jsonl", "application/jsonl": "jsonl", "text/csv": "csv"}
)
