"""The rows of files of plants, and what parses them."""

import codecs
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final, Self, TypeAlias

from plantstore.changes import Swap
from plantstore.errors import OperationError, RequestError
from plantstore.plants import NewPlant

# Bytes that are parsed at once. The rows of a piece may take a hundred times its size in memory.
PIECE_BYTES: Final = 16 * 1024

# What to do about a file in another encoding. Spreadsheets name the format of a file so.
_SAVE_AS_UTF8: Final = "save it as UTF-8, in a spreadsheet as CSV UTF-8"

# Enough to know the kind of a file. Some programs write two byte order marks.
_BEGINNING_BYTES: Final = 8

# The first bytes of files that people take for text.
_WORKBOOK: Final = "a workbook: save it as CSV UTF-8 in the spreadsheet"
_OTHER_KINDS: Final = {
    b"PK\x03\x04": _WORKBOOK,
    b"\xd0\xcf\x11\xe0": _WORKBOOK,
    b"\x1f\x8b": "compressed with gzip: decompress it first",
}
_CONTROL: Final = re.compile(rb"[\0-\x08\x0e-\x1f]")


# What a row of a file says, or a line of a list of changes.
Item: TypeAlias = NewPlant | Swap


@dataclass(slots=True)
class Rows:
    """Consecutive rows of a file, as lists of the same length: columns take less time than records.

    Attributes:
        first_lines: the number of the line that each row begins on, from 1.
        last_lines: the number of the line that it ends on.
        items: its plant or change, or None if it is not valid.
        texts: the row exactly as it is in the file, with its line end; the beginning of a row that
            is too large. In a str, a surrogate stands for each byte that is not UTF-8.

    """

    first_lines: list[int] = field(default_factory=list)
    last_lines: list[int] = field(default_factory=list)
    items: list[Item | None] = field(default_factory=list)
    texts: list[str | bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.items)

    def extend(self, more: Self) -> None:
        """Add rows."""
        self.first_lines.extend(more.first_lines)
        self.last_lines.extend(more.last_lines)
        self.items.extend(more.items)
        self.texts.extend(more.texts)

    def part(self, begin: int, end: int) -> "Rows":
        """Return the rows from a position to another one."""
        return Rows(
            self.first_lines[begin:end],
            self.last_lines[begin:end],
            self.items[begin:end],
            self.texts[begin:end],
        )


class RowParser(ABC):
    """Parses a file of plants from its bytes, as they arrive. It does no I/O.

    The same bytes give the same rows and warnings, whatever the pieces in which they arrive.

    A row that is not valid costs about as much time for each of its bytes as a valid one, so the
    reason is found only if somebody calls `explain`.

    Attributes:
        lacks_tags: whether the file says nothing about the tags of its plants.

    """

    lacks_tags: bool = False

    def __init__(self) -> None:
        self._beginning: bytes | None = b""  # what has arrived, until it is enough to be checked
        self._warnings: list[str] = []
        self._is_utf8 = True

    @property
    def warnings(self) -> list[str]:
        """Warnings about the whole file, so far.

        Those about its header are complete when the first row was returned.
        """
        advice = f"A part of the file is not UTF-8: {_SAVE_AS_UTF8}"
        return self._warnings if self._is_utf8 else [*self._warnings, advice]

    def feed(self, data: bytes) -> Rows:
        """Return the rows that are complete now.

        Raises:
            OperationError: this is not a file of this format.

        """
        return self._take(data, is_end=False)

    def finish(self) -> Rows:
        """Return the last rows, at the end of the file.

        Raises:
            OperationError: this is not a file of this format.

        """
        return self._take(b"", is_end=True)

    def explain(self, text: str | bytes) -> RequestError:
        """Return the reason why a row with this text is not valid."""
        try:
            self._check(text)
        except RequestError as error:
            return error.with_traceback(None)
        raise AssertionError("The row is valid")

    @abstractmethod
    def _check(self, text: str | bytes) -> None:
        """Raise the RequestError of a row that is not valid."""

    @abstractmethod
    def _parse(self, data: bytes, *, is_end: bool) -> Rows:
        """Return the rows that are complete now. The data has no byte order mark."""

    def _take(self, data: bytes, *, is_end: bool) -> Rows:
        if self._beginning is not None:
            data = self._beginning + data
            if len(data) < _BEGINNING_BYTES and not is_end:
                self._beginning = data
                return Rows()
            self._beginning = None
            _require_text(data)
            data = data.removeprefix(codecs.BOM_UTF8).removeprefix(codecs.BOM_UTF8)
        return self._parse(data, is_end=is_end)


def _require_text(beginning: bytes) -> None:
    """Check that a file that begins so may be text in UTF-8.

    Raises:
        OperationError: it is UTF-16, by its byte order mark or a NUL, or no text.

    """
    for kind, message in _OTHER_KINDS.items():
        if beginning.startswith(kind):
            raise OperationError(f"The file is {message}")
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in beginning[:4]:
        raise OperationError(f"The file is UTF-16, not UTF-8: {_SAVE_AS_UTF8}")
    if _CONTROL.search(beginning[:_BEGINNING_BYTES]):
        raise OperationError("The file is not text: import a CSV file, or JSON lines")


def is_utf8(line: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def readable(text: str | bytes) -> str:
    """Return the text of a row with U+FFFD for each byte that is not UTF-8."""
    raw = text.encode(errors="surrogateescape") if isinstance(text, str) else text
    return raw.decode(errors="replace")
