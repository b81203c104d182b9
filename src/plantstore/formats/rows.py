"""The rows of files of plants, and what parses them."""

import codecs
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from plantstore.errors import OperationError, RequestError
from plantstore.plants import NewPlant

# Bytes that are parsed at once. The rows of a piece may take a hundred times its size in memory.
PIECE_BYTES: Final = 16 * 1024

# What to do about a file in another encoding. Spreadsheets name the format of a file so.
_SAVE_AS_UTF8: Final = "save it as UTF-8, in a spreadsheet as CSV UTF-8"


@dataclass(slots=True)
class Rows:
    """Consecutive rows of a file, as lists of the same length: columns take less time than records.

    Attributes:
        first_lines: the number of the line that each row begins on, from 1.
        last_lines: the number of the line that it ends on.
        plants: its plant, or None if it is not a valid plant.
        texts: the row exactly as it is in the file, with its line end; the beginning of a row that
            is too large. In a str, a surrogate stands for each byte that is not UTF-8.

    """

    first_lines: list[int] = field(default_factory=list)
    last_lines: list[int] = field(default_factory=list)
    plants: list[NewPlant | None] = field(default_factory=list)
    texts: list[str | bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.plants)

    def extend(self, more: Self) -> None:
        """Add rows."""
        self.first_lines.extend(more.first_lines)
        self.last_lines.extend(more.last_lines)
        self.plants.extend(more.plants)
        self.texts.extend(more.texts)

    def part(self, begin: int, end: int) -> "Rows":
        """Return the rows from a position to another one."""
        return Rows(
            self.first_lines[begin:end],
            self.last_lines[begin:end],
            self.plants[begin:end],
            self.texts[begin:end],
        )


class RowParser(Protocol):
    """Parses a file of plants from its bytes, as they arrive. It does no I/O.

    A row that is not valid costs about as much time for each of its bytes as a valid one, so the
    reason is found only if somebody calls `explain`.

    Attributes:
        warnings: about the whole file. Those about its header are complete when the first row was
            returned; `explain` adds that a row is not UTF-8, once.
        lacks_tags: whether the file says nothing about the tags of its plants.

    """

    warnings: list[str]
    lacks_tags: bool

    def feed(self, data: bytes) -> Rows:
        """Return the rows that are complete now.

        Raises:
            OperationError: this is not a file of this format.

        """
        ...

    def finish(self) -> Rows:
        """Return the last rows, at the end of the file.

        Raises:
            OperationError: this is not a file of this format.

        """
        ...

    def explain(self, text: str | bytes) -> RequestError:
        """Return the reason why a row with this text is not a valid plant."""
        ...


def require_not_utf16(beginning: bytes) -> None:
    """Check that a file that begins so is not UTF-16: with its byte order mark, or a NUL.

    Raises:
        OperationError: it is.

    """
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in beginning[:4]:
        raise OperationError(f"The file is UTF-16, not UTF-8: {_SAVE_AS_UTF8}")


def warn_of_encoding(warnings: list[str]) -> None:
    """Add the advice about text that is not UTF-8, unless it is there already."""
    advice = f"A part of the file is not UTF-8: {_SAVE_AS_UTF8}"
    if advice not in warnings:
        warnings.append(advice)


def readable(text: str | bytes) -> str:
    """Return the text of a row with U+FFFD for each byte that is not UTF-8."""
    raw = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    return raw.decode(errors="replace")
