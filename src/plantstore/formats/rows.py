"""Rows of files of plants."""

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from plantstore.errors import RequestError
from plantstore.plants import NewPlant

if TYPE_CHECKING:
    import io

# A file of rows. Parsers use its buffer. (The class takes its argument only in type stubs.)
Source: TypeAlias = "io.BufferedReader[Any]"


class Row(msgspec.Struct, frozen=True, gc=False):
    """A row of a file: the number of its first line, from 1, its content, and its text.

    `content` is the plant of the row, or the error if the row is not a valid plant. `raw` is
    the row exactly as it is in the file, with its line end; a row that is too large is cut.
    `lines` is the number of its lines, as the format counts them.
    """

    line: int
    content: NewPlant | RequestError
    raw: str | bytes
    lines: int = 1

    @property
    def text(self) -> str:
        """The row as text. Bytes that are not UTF-8 are replaced."""
        raw = self.raw
        if isinstance(raw, str):  # with a surrogate for each byte that is not UTF-8
            raw = raw.encode(errors="surrogateescape")
        return raw.decode(errors="replace")
