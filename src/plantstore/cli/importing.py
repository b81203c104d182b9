"""`plantstore import`: store the plants of a file."""

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import click

from plantstore.changes import BATCH_CHARACTERS_MAX, Change, Result
from plantstore.cli.files import standard_stream
from plantstore.cli.opening import opened_store
from plantstore.cli.options import (
    FILE,
    file_format,
    format_of,
    refuse_contradictions,
    settings,
    transfers,
)
from plantstore.cli.progress import progress
from plantstore.cli.rejects import Rejects
from plantstore.errors import BatchRefusedError, OperationError, one_line
from plantstore.formats.rows import Source
from plantstore.halving import run_by_halves
from plantstore.imports import ROW_SLACK_BYTES, Batch, Conflict, Import, RowCounts
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import PlantStore

# The size of a transaction, in plants and in characters of their rows. A service that uses the
# same database waits for it: about 25 milliseconds.
BATCH_PLANTS_MAX: Final = 10_000

_STDIN: Final = Path("-")


class _Target(NamedTuple):
    """Where the plants go: the size of a batch, and a function that stores one."""

    batch_plants_max: int
    batch_characters_max: int
    store: Callable[[Import, Batch], None]


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
@settings("body_bytes_max", "database", "migrate", "standbys_min")
@transfers
@click.pass_context
def import_plants(
    context: click.Context,
    *,
    file: Path,
    file_format: str | None,
    rejects: Path | None,
    on_conflict: str,
    body_bytes_max: int,
    database: str,
    standbys_min: int,
    url: str | None,
    token_file: Path | None,
    ca: Path | None,
    migrate: bool,
) -> None:
    """Store the plants of a file.

    A row that is not valid is rejected, and the import continues; the exit status is then 1.
    """
    form = format_of(file, file_format)
    refuse_contradictions(context, only_local={"database", "migrate", "standbys_min"})
    policy = SchemaPolicy.of(migrate=migrate)
    conflict = Conflict(on_conflict)
    with (
        _reading(file) as source,
        contextlib.closing(form.read(source, body_bytes_max + ROW_SLACK_BYTES, _warn)) as rows,
        Rejects(rejects, source, database) as rejected,
        _opened(database, policy, standbys_min)
        if url is None
        else _connected(url, token_file, ca, conflict) as target,
    ):
        rejected.clear()
        run = Import(
            conflict,
            rejected.add,
            batch_plants_max=target.batch_plants_max,
            batch_characters_max=target.batch_characters_max,
        )
        size = _size(source)
        try:
            with progress("Importing") as report:
                for batch in run.batches(rows):
                    target.store(run, batch)
                    report(source.tell() if size else 0, size, run.counts.done())
        finally:
            click.echo(_describe(run.counts))
    if rejected.count:
        raise click.exceptions.Exit(1)


@contextlib.contextmanager
def _opened(database: str, policy: SchemaPolicy, standbys_min: int) -> Iterator[_Target]:
    with opened_store(database, policy, standbys_min=standbys_min) as store:

        def settle(run: Import, batch: Batch) -> None:
            run.settle(batch, _store(store, batch.changes))

        yield _Target(BATCH_PLANTS_MAX, BATCH_CHARACTERS_MAX, settle)
        while store.tidy() == 0:  # so that searches are fast at once
            pass


@contextlib.contextmanager
def _connected(
    url: str, token_file: Path | None, ca: Path | None, on_conflict: Conflict
) -> Iterator[_Target]:
    # Imported late: it loads an HTTP client and TLS.
    from plantstore.cli.remote import (  # noqa: PLC0415
        REQUEST_CHARACTERS_MAX,
        REQUEST_ROWS_MAX,
        RemoteService,
    )

    with contextlib.closing(RemoteService(url, token_file, ca)) as service:

        def settle(run: Import, batch: Batch) -> None:
            for rows, result in service.store(batch.rows, on_conflict):
                run.add_result(rows, result)

        yield _Target(REQUEST_ROWS_MAX, REQUEST_CHARACTERS_MAX, settle)


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


def _warn(message: str) -> None:
    click.echo(f"Warning: {one_line(message)}", err=True)


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[Source]:
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


def _store(store: PlantStore, changes: Sequence[Change]) -> list[Result | BatchRefusedError]:
    """Store plants. A plant that the store refuses does not affect the others."""

    def explain(error: Exception, _changes: int) -> BatchRefusedError:
        if isinstance(error, BatchRefusedError):
            return error
        raise error

    return run_by_halves(store.apply_changes, changes, explain)
