"""What commands share: opened stores, files that are written completely or not at all, a bar."""

import contextlib
import os
import secrets
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, TypeAlias

import click

from plantstore.errors import OperationError, SchemaOutdatedError, UsageError
from plantstore.observe import DatabaseCreated, Event, HardLinksFound, Observer, migration_progress
from plantstore.settings import Settings
from plantstore.storage import SQLITE_SUFFIXES, database_files, open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Store


def open_named(
    database: str,
    policy: SchemaPolicy,
    *,
    standbys_min: int,
    observe: Observer,
    grant_to: str | None = None,
) -> Store:
    """Open a store. An error that ends with a command has the option that names the database."""
    try:
        return open_store(
            database, policy, standbys_min=standbys_min, observe=observe, grant_to=grant_to
        )
    except SchemaOutdatedError as error:
        raise SchemaOutdatedError(f"{error.message}{database_option(database)}") from error


def database_option(database: str) -> str:
    """Return the option that names a database in a command; empty if it needs none.

    The URL of a PostgreSQL database may contain a password, so the option has URL in its place.
    """
    if database == Settings().database:
        return ""
    return f" --database {shlex.quote(database) if database.startswith('sqlite:') else 'URL'}"


@contextlib.contextmanager
def opened_store(
    database: str, policy: SchemaPolicy, *, standbys_min: int = 0, grant_to: str | None = None
) -> Iterator[Store]:
    """Open a store for the block. Report what `_report` has words for on stderr."""
    store = open_named(
        database, policy, standbys_min=standbys_min, observe=_report, grant_to=grant_to
    )
    with contextlib.closing(store):
        yield store


def _report(event: Event) -> None:
    if isinstance(event, DatabaseCreated):
        click.echo(f"Created the database {event.database}", err=True)
    elif isinstance(event, HardLinksFound):
        click.echo(
            f"Warning: {event.file} has several names (hard links); use always the same one, since"
            " each has a log of its own",
            err=True,
        )
    elif progress := migration_progress(event):
        click.echo(progress, err=True)


# Takes the amount done, and the total amount; None if it is unknown.
Report: TypeAlias = Callable[[int, int | None], None]


@contextlib.contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a bar and the remaining time while the block runs, if stderr is a terminal."""
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    with click.progressbar(length=1, label=what, file=sys.stderr, hidden=not is_watched) as bar:

        def report(done: int, total: int | None) -> None:
            bar.length = total
            bar.update(done - bar.pos)

        yield report


@contextlib.contextmanager
def new_file(target: Path, database: str, *, force: bool, mode: int) -> Iterator[Path]:
    """Create an empty file to write to, and rename it to the target when the block succeeds.

    Until then it is in the folder of the target, under a name that begins with a dot. If the
    process is killed, that file remains, and the target is unchanged.

    Args:
        target: the path of the complete file.
        database: the URL of the store; the target must not be one of its files.
        force: whether the file may replace an existing one.
        mode: of the file, as for `os.open`.

    Raises:
        UsageError: the target is a file of the store.
        OperationError: the target exists, or cannot be written.

    """
    target = real_path(target)
    require_other_file(target, database)
    if target.exists() and not target.is_file():
        what = "is a folder; name a file in it" if target.is_dir() else "is not a regular file"
        raise OperationError(f"{target} {what}")
    if target.exists() and not force:
        raise _exists(target)
    partial = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
    try:
        os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
        yield partial
        _sync(partial)
        if force:
            partial.replace(target)
        else:
            _rename_to_new(partial, target)
        _sync(target.parent)
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        raise OperationError(f"{target} cannot be written: {error.strerror}") from error
    finally:
        for suffix in SQLITE_SUFFIXES:
            with contextlib.suppress(OSError):  # the file is not there, or its folder is read-only
                partial.with_name(partial.name + suffix).unlink()


def real_path(path: Path) -> Path:
    """Return an absolute path without links. A link that leads to itself stays in it."""
    return Path(os.path.realpath(path))


def require_other_file(path: Path, database: str) -> None:
    """Raise UsageError if a path leads to a file that the store has, or may create."""
    files = database_files(database)
    existing = [file for file in files if file.exists()] if path.exists() else []
    if real_path(path) in files or any(path.samefile(file) for file in existing):
        raise UsageError(f"{path} is a file of the store itself; name another file")


def standard_stream(stream: TextIO | None) -> BinaryIO:
    """Return the binary stream of stdin or stdout. Python has None for a closed one."""
    if stream is None:
        raise OperationError("The standard stream is closed")
    return stream.buffer


def _rename_to_new(path: Path, target: Path) -> None:
    """Rename a file, and never overwrite another.

    Raises:
        FileExistsError: the target exists.

    """
    try:
        target.hardlink_to(path)
    except FileExistsError:
        raise
    except OSError:  # FAT and exFAT, for example, have no hard links
        # Now nobody else can create it. If the process is killed here, it stays empty; and what
        # another program puts there with --force is lost. A link has no such moment.
        target.touch(exist_ok=False)
        path.replace(target)
    else:
        path.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(target: Path) -> OperationError:
    return OperationError(f"{target.name} exists already; --force overwrites it")
