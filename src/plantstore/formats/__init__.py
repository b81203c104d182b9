"""Files of plants: CSV and JSON lines, in UTF-8.

Rows are validated like requests. Importing an export restores exactly the same plants. The
export fails if a plant cannot be written in the format.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from plantstore.formats.comma_separated import CsvParser, render_csv
from plantstore.formats.json_lines import JsonLinesParser, render_json_lines
from plantstore.formats.rows import RowParser
from plantstore.plants import NewPlant


class Format(NamedTuple):
    """A file format for plants.

    `parser` makes a parser of one file. Its argument is the maximum size of a row, in bytes of
    JSON lines and in characters of CSV. `head` is the beginning of a file; `render` returns
    plants as rows.
    """

    parser: Callable[[int], RowParser]
    head: bytes
    render: Callable[[Sequence[NewPlant]], bytes]


FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {
        "csv": Format(CsvParser, b"id,name,tag\r\n", render_csv),
        "jsonl": Format(JsonLinesParser, b"", render_json_lines),
    }
)

# The format of each media type. Both names of JSON lines are in use; neither is registered.
MEDIA_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"application/x-ndjson": "jsonl", "application/jsonl": "jsonl", "text/csv": "csv"}
)
