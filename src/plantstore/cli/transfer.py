"""`plantstore import` and `plantstore export`: plants from and to files."""

import contextlib
import itertools
import os
import stat
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import click
import msgspec

from plantstore.changes import Change, Result
from plantstore.cli.opening import new_file, opened_store, require_other_file, standard_stream
from plantstore.cli.options import FILE, file_format, format_of, require_name, settings
from plantstore.commit.batcher import run_each_if_refused
from plantstore.commit.imports import Batch, Conflict, Import, RowCounts, RowError
from plantstore.errors import BatchRefusedError, OperationError, UsageError, one_line
from plantstore.formats.rows import PIECE_BYTES, readable
from plantstore.settings import terminal_is_dumb
from plantstore.storage import open_for_maintenance
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import PlantStore, Store


class Report(Protocol):
    """Takes the amount done, the total amount (None if unknown), and the number of plants."""

    def __call__(self, done: int, total: int | None, plants: int | None = None) -> None:
        """Update the progress bar."""


@contextlib.contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a bar, the remaining time and the rate while the block runs, if on a terminal."""
    is_hidden = not sys.stderr.isatty() or terminal_is_dumb()
    began = time.monotonic()

    def describe(plants: int | None) -> str:
        return f"{plants:,} plants, {plants / (time.monotonic() - began):,.0f}/s" if plants else ""

    with click.progressbar(
        length=1, label=what, file=sys.stderr, item_show_func=describe, hidden=is_hidden
    ) as bar:

        def report(done: int, total: int | None, plants: int | None = None) -> None:
            bar.length = total
            bar.finished = False  # `reindex` begins again after a repair
            bar.current_item = plants
            bar.make_step(done - bar.pos)
            bar.render_progress()

        yield report


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
            require_other_file(path, database)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(source.fileno())):
                raise UsageError(f"--rejects: {path} is the file that is imported")
            self._file = path.open("ab", buffering=0)

    def close(self) -> None:
        """Close the file."""
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
            record = msgspec.to_builtins(error) | {"row": readable(text)}
            with self._writing():
                self._file.write(msgspec.json.encode(record) + b"\n")
        elif self.count <= SHOWN_REJECTS_MAX:
            last = error.last_line
            lines = f"Lines {error.line} to {last}" if last else f"Line {error.line}"
            click.echo(f"{lines}: {error.message}", err=True)
        elif self.count == SHOWN_REJECTS_MAX + 1:
            click.echo("More rows are rejected; --rejects FILE writes all to a file", err=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OperationError(f"{self._path} cannot be written: {error.strerror}") from error


# How long the thread that stores a batch waits for the one that parses the next batch. Python's
# default, 5 ms, is a third of the time of a transaction.
SWITCH_SECONDS: Final = 0.000_1

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
    callback=require_name,
    metavar="FILE",
    help="Write rejected rows to this file: JSON lines with line, error, message and row, and"
    " last_line if a row has several.",
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
    with (
        _reading(file) as source,
        contextlib.closing(Rejects(rejects, source, database)) as rejected,
    ):
        run = Import(form.parser(), Conflict(on_conflict), rejected.add)
        batches = _read_batches(source, run)
        # The beginning of the file is read first. If it is no such file, no database is created.
        first = list(itertools.islice(batches, 1))
        _show(warned := [*run.warnings])
        with opened_store(database, SchemaPolicy.CREATE, standbys_min=standbys_min) as store:
            rejected.clear()
            _store_batches(store, run, itertools.chain(first, batches), source)
        _show(run.warnings[len(warned) :])
    if rejected.count:
        raise click.exceptions.Exit(1)


def _show(warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(f"Warning: {one_line(warning)}", err=True)


def _read_batches(source: BinaryIO, run: Import) -> Iterator[Batch]:
    while piece := source.read(PIECE_BYTES):
        yield from run.feed(piece)
    yield from run.finish()


def _store_batches(store: Store, run: Import, batches: Iterable[Batch], source: BinaryIO) -> None:
    """Store each batch on a thread, while the next one is parsed."""
    size = _size(source)
    storing: deque[tuple[Batch, Future[list[Result | BatchRefusedError]]]] = deque(maxlen=1)

    def settle() -> None:
        if storing:
            batch, outcomes = storing.popleft()
            run.settle(batch, outcomes.result())
            report(source.tell() if size else 0, size, run.counts.done())

    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        with progress("Importing") as report, ThreadPoolExecutor(1) as writer:
            try:
                for batch in batches:
                    settle()
                    storing.append((batch, writer.submit(_apply, store, batch.changes)))
            finally:
                settle()
    finally:
        click.echo(_describe(run.counts))


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


def _reading(file: Path) -> AbstractContextManager[BinaryIO]:
    if file == _STANDARD_STREAM:
        return standard_stream(sys.stdin)
    try:
        return file.open("rb")
    except OSError as error:
        raise OperationError(f"{file} cannot be read: {error.strerror}") from error


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


@click.command()
@click.argument(
    "file",
    type=FILE,
    default=_STANDARD_STREAM,
    help="A .csv or .jsonl file. Default: - for stdout, as JSON lines.",
)
@file_format
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@settings("database")
def export(file: Path, *, file_format: str | None, database: str, force: bool) -> None:
    """Write all plants to a file, in order of id.

    The file is a consistent snapshot, even while a service uses the database.
    """
    form = format_of(Path("plants.jsonl") if file == _STANDARD_STREAM else file, file_format)
    with (
        contextlib.closing(open_for_maintenance(database)) as store,
        _writing(file, database, force=force) as target,
        progress("Exporting") as report,
        contextlib.closing(store.scan_plants()) as pages,
    ):
        total = store.count_plants()
        exported = 0
        target.write(form.head)
        for page in pages:
            target.write(form.render(page))
            exported += len(page)
            report(exported, total, exported)
        target.flush()
    click.echo(f"Exported {exported:,} plants", err=True)


@contextlib.contextmanager
def _writing(file: Path, database: str, *, force: bool) -> Iterator[BinaryIO]:
    if file == _STANDARD_STREAM:
        yield standard_stream(sys.stdout)
        return
    with new_file(file, database, force=force, mode=0o666) as partial, partial.open("wb") as target:
        yield target
