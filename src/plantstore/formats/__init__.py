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

    Attributes:
        media_type: of a file.
        content_type: of a response with a file. Without a charset, some clients read text as
            Latin-1.
        other_media_types: further names of it that are in use.
        parser: makes a parser of one file. Its argument is the maximum size of a row, in bytes of
            JSON lines and in characters of CSV; by default, that of a plant.
        head: the beginning of a file.
        render: returns plants as rows.

    """

    media_type: str
    content_type: str
    other_media_types: frozenset[str]
    parser: Callable[..., RowParser]
    head: bytes
    render: Callable[[Sequence[NewPlant]], bytes]


_CSV: Final = Format(
    "text/csv",
    "text/csv; charset=utf-8",
    frozenset(),
    CsvParser,
    b"id,name,tag\r\n",
    render_csv,
)
# No name of JSON lines is registered.
_JSON_LINES: Final = Format(
    "application/x-ndjson",
    "application/x-ndjson",
    frozenset({"application/ndjson", "application/jsonl"}),
    JsonLinesParser,
    b"",
    render_json_lines,
)

# The format of each suffix of a file name.
FORMATS: Final[Mapping[str, Format]] = MappingProxyType(
    {"csv": _CSV, "jsonl": _JSON_LINES, "ndjson": _JSON_LINES}
)
