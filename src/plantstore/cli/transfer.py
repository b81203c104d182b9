"""`plantstore import` and `plantstore export`: plants from and to files."""

import contextlib
import os
import stat
import sys
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

import click
import msgspec

from plantstore.changes import AllInSet, Change, Result, SingleChange
from plantstore.cli.opening import (
    database_option,
    new_file,
    opened_store,
    progress,
    require_other_file,
    standard_stream,
)
from plantstore.cli.options import FILE, file_format, format_of, settings
from plantstore.commit.batcher import run_split_if_refused
from plantstore.commit.imports import Conflict, DryRun, Import, RowBatch, RowCounts, RowError
from plantstore.errors import (
    BatchRefusedError,
    FeedError,
    OperationError,
    StoreUnavailableError,
    UsageError,
    one_line,
)
from plantstore.formats.rows import PIECE_BYTES, readable
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import PlantStore

# How many rejected rows are shown without --rejects.
SHOWN_REJECTS_MAX: Final = 10


class Rejects:
    """Counts the rejected rows, and writes them to a file, or the first ones to stderr.

    Args:
        path: the file, or None. An existing file is replaced.
        source: the file that is imported; it must not be overwritten.
        database: the URL of the store; its files must not be overwritten either.

    Raises:
        UsageError: `path` is one of these files.
        OSError: the file cannot be opened.

    """

    def __init__(self, path: Path | None, source: BinaryIO, database: str) -> None:
        self.count = 0
        self._path = path
        self._file: BinaryIO | None = None
        if path is None:
            return
        require_other_file(path, database)
        if path.exists() and os.path.samestat(path.stat(), os.fstat(source.fileno())):
            raise UsageError(f"--rejects: {path} is the file that is imported")
        self._file = path.open("wb", buffering=0)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def add(self, error: RowError, text: str | bytes) -> None:
        """Count a row, and write it with its error.

        Raises:
            OperationError: the file cannot be written.

        """
        self.count += 1
        if self._file is not None:
            record = msgspec.to_builtins(error) | {"row": readable(text)}
            rest = msgspec.json.encode(record) + b"\n"
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError as failed:
                message = f"{self._path} cannot be written: {failed.strerror}"
                raise OperationError(message) from failed
        elif self.count <= SHOWN_REJECTS_MAX:
            last = error.last_line
            lines = f"Lines {error.line} to {last}" if last else f"Line {error.line}"
            click.echo(f"{lines}: {error.message}", err=True)
        elif self.count == SHOWN_REJECTS_MAX + 1:
            click.echo("More rows are rejected; --rejects FILE writes all to a file", err=True)


_STANDARD_STREAM: Final = Path("-")


@click.command("import")
@click.argument(
    "file",
    type=FILE,
    help="A .csv file with a header, or a .jsonl file. - reads stdin; then give --format.",
)
@file_format
@click.option(
    "--rejects",
    type=FILE,
    metavar="FILE",
    help="Write rejected rows to this file, and replace what it has: JSON lines with line, error,"
    " message and row, and last_line if a row has several.",
)
@click.option(
    "--on-conflict",
    type=click.Choice([each.value for each in Conflict]),
    default=Conflict.REFUSE.value,
    show_default=True,
    help="What to do with a row if a different plant has its id.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Store nothing, and print what would be stored. The database must exist.",
)
@settings("database", "standbys_min")
def import_plants(
    file: Path,
    *,
    file_format: str | None,
    rejects: Path | None,
    on_conflict: str,
    dry_run: bool,
    database: str,
    standbys_min: int,
) -> None:
    """Store the plants of a file.

    A row that is not valid is rejected, and the import continues; the exit status is then 1, also
    of a dry run.
    """
    form = format_of(file, file_format)
    with (
        standard_stream(sys.stdin) if file == _STANDARD_STREAM else file.open("rb") as source,
        contextlib.closing(Rejects(rejects, source, database)) as rejected,
    ):
        run = Import(form.parser(), Conflict(on_conflict), rejected.add)
        batches = _read_batches(source, run)
        first = [*islice(batches, 1)]  # a file that cannot be imported creates no database
        opened = _deciding(database) if dry_run else _storing(database, standbys_min)
        with opened as apply:
            try:
                _store_batches(apply, run, chain(first, batches), source)
            finally:
                click.echo(f"{'Dry run: ' if dry_run else ''}{_describe(run.counts)}")
    for warning in run.warnings:
        click.echo(f"Warning: {one_line(warning)}", err=True)
    if rejected.count:
        raise click.exceptions.Exit(1)


def _read_batches(source: BinaryIO, run: Import) -> Iterator[RowBatch]:
    while piece := source.read(PIECE_BYTES):
        yield from run.feed(piece)
    yield from run.finish()


# Returns an outcome for each change.
_Apply: TypeAlias = Callable[[Sequence[SingleChange]], Sequence[Result | BatchRefusedError]]


@contextlib.contextmanager
def _storing(database: str, standbys_min: int) -> Iterator[_Apply]:
    """Give the block a function that stores plants in a set. Then say how the set is undone."""
    name = str(uuid.uuid4())
    with opened_store(database, SchemaPolicy.CREATE, standbys_min=standbys_min) as store:
        try:
            yield lambda changes: apply_all(store, AllInSet(changes, name))
        finally:
            with contextlib.suppress(FeedError):  # nothing has changed, or the feed is off
                with contextlib.suppress(StoreUnavailableError):  # something may have changed
                    store.read_set(name, None, 0)
                click.echo(f"To undo: plantstore undo {name}{database_option(database)}", err=True)


@contextlib.contextmanager
def _deciding(database: str) -> Iterator[_Apply]:
    """Give the block a function that decides changes, and stores nothing."""
    dry_run = DryRun()
    with opened_store(database, SchemaPolicy.ACCEPT) as store:
        yield lambda changes: dry_run.decide(
            changes, store.find_plants([change.id for change in changes])
        )


def _store_batches(
    apply: _Apply, run: Import, batches: Iterable[RowBatch], source: BinaryIO
) -> None:
    """Store each batch on a thread, while the next one is parsed."""
    size = _size(source)
    storing: deque[tuple[RowBatch, Future[Sequence[Result | BatchRefusedError]]]] = deque(maxlen=1)

    def wait_oldest() -> None:
        if storing:
            batch, outcomes = storing.popleft()
            run.settle(batch, outcomes.result())
            report(source.tell() if size else 0, size)

    with progress("Importing") as report, ThreadPoolExecutor(1) as writer:
        try:
            for batch in batches:
                wait_oldest()
                storing.append((batch, writer.submit(apply, batch.changes)))
        finally:
            wait_oldest()


def _describe(counts: RowCounts) -> str:
    parts = {
        "stored": counts.stored,
        "already there": counts.already_stored,
        "replaced": counts.replaced,
        "skipped": counts.skipped,
        "rejected": counts.refused,
    }
    always = {"stored", "already there", "rejected"}
    return ", ".join(f"{many:,} {what}" for what, many in parts.items() if many or what in always)


def _size(source: BinaryIO) -> int | None:
    """Return the size of a file in bytes, or None for a stream."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def apply_all(store: PlantStore, changes: Sequence[Change]) -> list[Result | BatchRefusedError]:
    """Store plants. A plant that the store refuses does not affect the others."""

    def explain(error: Exception, _changes: int) -> BatchRefusedError:
        if isinstance(error, BatchRefusedError):
            return error
        raise error

    return run_split_if_refused(store.apply_changes, changes, explain)


@click.command()
@click.argument(
    "file",
    type=FILE,
    default=_STANDARD_STREAM,
    help="A .csv or .jsonl file. Default: - for stdout, as JSON lines.",
)
@file_format
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.option("--skip-damaged", is_flag=True, help="Leave out plants that are damaged.")
@settings("database")
def export(
    file: Path, *, file_format: str | None, database: str, force: bool, skip_damaged: bool
) -> None:
    """Write all plants to a file, in order of id.

    The file is a consistent snapshot, even while a service uses the database.
    """
    form = format_of(Path("plants.jsonl") if file == _STANDARD_STREAM else file, file_format)
    damaged: set[int] = set()  # of the next page
    damaged_total = 0

    def on_damaged(ids: list[int]) -> None:
        nonlocal damaged, damaged_total
        damaged = set(ids)
        damaged_total += len(ids)

    with (
        opened_store(database, SchemaPolicy.ACCEPT) as store,
        _writing(file, database, force=force) as target,
        progress("Exporting") as report,
        contextlib.closing(store.scan_plants(on_damaged=on_damaged)) as pages,
    ):
        total, exported = None, 0
        with contextlib.suppress(StoreUnavailableError):  # the plants may be whole without it
            total = store.count_plants()
        target.write(form.head)
        for page in pages:
            plants = [each for each in page if each.id not in damaged] if skip_damaged else page
            target.write(form.render(plants))
            exported += len(plants)
            report(exported, total)
        target.flush()
    click.echo(f"Exported {exported:,} plants", err=True)
    if damaged_total:
        where = "were left out" if skip_damaged else "are among them"
        message = f"{damaged_total:,} damaged plants {where}; `plantstore check` names them"
        click.echo(message, err=True)


@contextlib.contextmanager
def _writing(file: Path, database: str, *, force: bool) -> Iterator[BinaryIO]:
    if file == _STANDARD_STREAM:
        yield standard_stream(sys.stdout)
        return
    with new_file(file, database, force=force, mode=0o666) as partial, partial.open("wb") as target:
        yield target
