"""The rows that `plantstore import` rejects."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, Self

import click
import msgspec

from plantstore.cli.files import insist_on_other_file
from plantstore.commit.imports import RowError
from plantstore.errors import OperationError, UsageError
from plantstore.formats.rows import readable

# How many rejected rows are shown without --rejects.
SHOWN_REJECTS_MAX: Final = 10


class Rejects:
    """Counts the rejected rows, and writes them to a file, or the first ones to stderr.

    Args:
        path: the file, or None. It is created at once, and emptied by `clear`.
        source: the file that is imported; it must not be overwritten.
        database: the URL of the store; its files must not be overwritten either.

    Raises:
        UsageError: `path` is one of these files.
        OperationError: the file cannot be written.

    """

    def __init__(self, path: Path | None, source: BinaryIO, database: str) -> None:
        self.count = 0
        self._path = path
        self._file: BinaryIO | None = None
        if path is None:
            return
        with self._writing():
            insist_on_other_file(path, database)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(source.fileno())):
                raise UsageError(f"--rejects: {path} is the file that is imported")
            self._file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def clear(self) -> None:
        """Empty the file. Call this when nothing can fail any more before the first row."""
        if self._file is not None and self._path is not None and self._path.is_file():
            with self._writing():
                self._file.truncate(0)

    def add(self, error: RowError, text: str | bytes) -> None:
        """Count a row, and write it with its error."""
        self.count += 1
        if self._file is not None:
            record = msgspec.structs.asdict(error) | {"row": readable(text)}
            with self._writing():
                self._file.write(msgspec.json.encode(record) + b"\n")
        elif self.count <= SHOWN_REJECTS_MAX:
            click.echo(f"Line {error.line}: {error.message}", err=True)
        elif self.count == SHOWN_REJECTS_MAX + 1:
            click.echo("More rows are rejected; --rejects FILE writes all to a file", err=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OperationError(f"{self._path} cannot be written: {error.strerror}") from error
