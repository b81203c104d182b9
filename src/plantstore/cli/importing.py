"""`plantstore import`: store the plants of a file."""

import contextlib
import itertools
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import click

from plantstore.changes import Change, Result
from plantstore.cli.files import standard_stream
from plantstore.cli.opening import opened_store
from plantstore.cli.options import FILE, file_format, format_of, settings
from plantstore.cli.progress import progress
from plantstore.cli.rejects import Rejects
from plantstore.commit.batcher import run_each_if_refused
from plantstore.commit.imports import Batch, Conflict, Import, RowCounts
from plantstore.errors import BatchRefusedError, OperationError, one_line
from plantstore.formats.rows import PIECE_BYTES
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import PlantStore, Store

# The size of a transaction, in plants and in characters of their rows. A service that uses the
# same database waits for it: about 25 milliseconds.
BATCH_PLANTS_MAX: Final = 10_000

_STDIN: Final = Path("-")


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
    help="Write rejected rows to this file: JSON lines with line, error, message and row.",
)
@click.option(
    "--on-conflict",
    type=click.Choice([each.value for each in Conflict]),
    default=Conflict.REFUSE.value,
    show_default=True,
    help="What to do with a row if a different plant has its id.",
)
@settings("database", "standbys_min")
def import_plants(
    file: Path,
    *,
    file_format: str | None,
    rejects: Path | None,
    on_conflict: str,
    database: str,
    standbys_min: int,
) -> None:
    """Store the plants of a file.

    A row that is not valid is rejected, and the import continues; the exit status is then 1.
    """
    form = format_of(file, file_format)
    with _reading(file) as source, Rejects(rejects, source, database) as rejected:
        run = Import(
            form.parser(),
            Conflict(on_conflict),
            rejected.add,
            batch_rows_max=BATCH_PLANTS_MAX,
        )
        batches = _read_batches(source, run)
        # The beginning of the file is read first. If it is no such file, no database is created.
        first = list(itertools.islice(batches, 1))
        for warning in run.warnings:
            click.echo(f"Warning: {one_line(warning)}", err=True)
        with opened_store(database, SchemaPolicy.CREATE, standbys_min=standbys_min) as store:
            rejected.clear()
            _store_batches(store, run, itertools.chain(first, batches), source)
    if rejected.count:
        raise click.exceptions.Exit(1)


def _read_batches(source: BinaryIO, run: Import) -> Iterator[Batch]:
    while piece := source.read(PIECE_BYTES):
        run.feed(piece)
        yield from iter(run.take, None)
    run.finish()
    yield from iter(run.take, None)


def _store_batches(store: Store, run: Import, batches: Iterable[Batch], source: BinaryIO) -> None:
    size = _size(source)
    try:
        with progress("Importing") as report:
            for batch in batches:
                run.settle(batch, _apply(store, batch.changes))
                report(source.tell() if size else 0, size, run.counts.done())
    finally:
        click.echo(_describe(run.counts))
    while store.tidy() == 0:  # so that searches are fast at once
        pass


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


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[BinaryIO]:
    if file == _STDIN:
        with os.fdopen(standard_stream(sys.stdin).fileno(), "rb", closefd=False) as stdin:
            yield stdin
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise OperationError(f"{file} cannot be read: {error.strerror}") from error
    with source:
        yield source


def _size(source: BinaryIO) -> int | None:
    """Return the size of a file in bytes, or None for a stream."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _apply(store: PlantStore, changes: Sequence[Change]) -> list[Result | BatchRefusedError]:
    """Store plants. A plant that the store refuses does not affect the others."""

    def explain(error: Exception, _changes: int) -> BatchRefusedError:
        if isinstance(error, BatchRefusedError):
            return error
        raise error

    return run_each_if_refused(store.apply_changes, changes, explain)
