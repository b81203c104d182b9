"""Files that commands write: there as a whole, or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from plantstore.errors import UsageError


@contextlib.contextmanager
def new_file(target: Path, *, force: bool, mode: int) -> Iterator[Path]:
    """Give an empty file to write to; it becomes the target when the block ends well.

    Until then it lies beside the target, under another name. A crash leaves no
    target that seems to be whole.

    Args:
        target: where the file goes.
        force: whether it may take the place of a file that is there.
        mode: of the file, as `os.open` takes it.

    Raises:
        UsageError: the target is there, or cannot be written.

    """
    exclusive = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        if not force:  # Take the name, so that nobody else's file is overwritten at the end.
            os.close(os.open(target, exclusive, mode))
        elif target.exists() and not target.is_file():
            raise UsageError(f"{target} is not a regular file")
    except FileExistsError:
        raise UsageError(f"{target} is there already; --force overwrites it") from None
    except OSError as error:
        raise _cannot_write(target, error) from error
    is_whole = False
    try:
        os.close(os.open(partial, exclusive, mode))
        yield partial
        _sync(partial)
        partial.replace(target)
        _sync(target.parent)
        is_whole = True
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        if not is_whole:
            for file in target.parent.glob(f"{partial.name}*"):  # SQLite's logs beside it too
                file.unlink()
            if not force:
                target.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _cannot_write(target: Path, error: OSError) -> UsageError:
    return UsageError(f"{target} cannot be written: {error.strerror}")
