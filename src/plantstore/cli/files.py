"""Files that commands write: there as a whole, or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from plantstore.errors import UsageError
from plantstore.storage import database_files

# What SQLite may leave beside a database that it could not finish.
_SUFFIXES: Final = ("", "-journal", "-wal", "-shm")


@contextlib.contextmanager
def new_file(target: Path, database: str, *, force: bool, mode: int) -> Iterator[Path]:
    """Give an empty file to write to; it becomes the target when the block ends well.

    Until then it lies beside the target, under a name that begins with a dot. What
    ends this process at once leaves it there, and no target that seems whole.

    Args:
        target: where the file goes.
        database: the URL of the store; the target must not be one of its files.
        force: whether the file may take the place of one that is there.
        mode: of the file, as `os.open` takes it.

    Raises:
        UsageError: the target is there, or cannot be written.

    """
    target = target.resolve()
    insist_on_other_file(target, database)
    if target.exists() and not force:
        raise _is_there(target)
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is not a regular file")
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        yield partial
        _sync(partial)
        if force:
            partial.replace(target)
        else:
            target.hardlink_to(partial)  # unlike a renaming, it never overwrites
        _sync(target.parent)
    except FileExistsError:
        raise _is_there(target) from None
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        for suffix in _SUFFIXES:
            partial.with_name(partial.name + suffix).unlink(missing_ok=True)


def insist_on_other_file(path: Path, database: str) -> None:
    """Raise UsageError if a path leads to a file of the store."""
    files = (file for file in database_files(database) if file.exists())
    if path.exists() and any(path.samefile(file) for file in files):
        raise UsageError(f"{path} is a file of the store itself; name another file")


def standard_stream(stream: TextIO | None) -> BinaryIO:
    """Return the bytes of stdin or stdout, which are None where a program begins without them."""
    if stream is None:
        raise UsageError("The standard stream is closed")
    return stream.buffer


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_there(target: Path) -> UsageError:
    return UsageError(f"{target.name} is there already; --force overwrites it")
