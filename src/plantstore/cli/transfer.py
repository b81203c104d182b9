"""`plantstore import` and `plantstore export`: read plants from a file, or write them to one."""

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from plantstore.cli.files import new_file, standard_stream
from plantstore.cli.opening import opened_store
from plantstore.cli.progress import Report, progress
from plantstore.cli.rejects import Rejects
from plantstore.errors import (
    BatchRefusedError,
    IdTakenError,
    OperationError,
    RequestError,
    UsageError,
    one_line,
)
from plantstore.formats import FORMATS, Format
from plantstore.formats.rows import Row
from plantstore.halving import run_by_halves
from plantstore.plants import NewPlant
from plantstore.settings import (
    BODY_BYTES_MAX_DEFAULT,
    DATABASE_DEFAULT,
    MIGRATE_DEFAULT,
    STANDBYS_MIN_DEFAULT,
    BodyBytesMax,
    Database,
    Migrate,
    StandbysMin,
)
from plantstore.storage import open_for_maintenance
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import (
    BATCH_CHARACTERS_MAX,
    Maintenance,
    Outcome,
    PlantStore,
)

# The size of a transaction, in plants and in characters of their rows. A service that uses the
# same database waits for it: about 25 milliseconds.
BATCH_PLANTS_MAX: Final = 10_000

# A row may be this much larger than a request body, since the body of a PUT has no id.
ROW_SLACK_BYTES: Final = 1024

_STANDARD_STREAM: Final = Path("-")


class FormatName(Enum):
    """The values of `--format`."""

    CSV = "csv"
    JSONL = "jsonl"


def import_plants(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .csv file with a header, or a .jsonl file. - reads stdin; then give --format."
        ),
    ],
    file_format: Annotated[
        FormatName | None,
        typer.Option("--format", help="Format of the file. Default: by its name."),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write rejected rows to this file: JSON lines with line, error, message and row.",
        ),
    ] = None,
    *,
    body_bytes_max: BodyBytesMax = BODY_BYTES_MAX_DEFAULT,
    database: Database = DATABASE_DEFAULT,
    migrate: Migrate = MIGRATE_DEFAULT,
    standbys_min: StandbysMin = STANDBYS_MIN_DEFAULT,
) -> None:
    """Store the plants of a file.

    A row that is not valid is rejected, and the import continues; the exit status is then 1.
    """
    form = _format_of(file, file_format)
    policy = SchemaPolicy.of(migrate=migrate)
    with (
        _reading(file) as source,
        contextlib.closing(form.read(source, body_bytes_max + ROW_SLACK_BYTES, _warn)) as rows,
        Rejects(rejects, source, database) as rejected,
        opened_store(database, policy, standbys_min=standbys_min) as store,
    ):
        rejected.clear()
        stored = there = 0
        size = _size(source)
        try:
            with progress("Importing") as report:
                for outcomes in _store_rows(rows, store, rejected.add):
                    stored += outcomes.count(Outcome.STORED)
                    there += outcomes.count(Outcome.ALREADY_STORED)
                    report(source.tell() if size else 0, size, stored + there)
        finally:
            typer.echo(f"{stored:,} stored, {there:,} already there, {rejected.count:,} rejected")
    if rejected.count:
        raise typer.Exit(1)


def _warn(message: str) -> None:
    typer.echo(f"Warning: {one_line(message)}", err=True)


def export(
    file: Annotated[
        Path | None,
        typer.Argument(help="A .csv or .jsonl file. Default: stdout, as JSON lines."),
    ] = None,
    file_format: Annotated[
        FormatName | None,
        typer.Option("--format", help="Format of the file. Default: by its name."),
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    database: Database = DATABASE_DEFAULT,
) -> None:
    """Write all plants to a file, in order of id.

    The file is a consistent snapshot, even while a service uses the database.
    """
    to_stdout = file in (None, _STANDARD_STREAM)
    form = _format_of(Path("plants.jsonl") if file is None else file, file_format)
    with (
        contextlib.closing(open_for_maintenance(database)) as store,
        _writing(None if to_stdout else file, database, force=force) as target,
        progress("Exporting") as report,
    ):
        exported = _write_all(store, form, target, report)
    typer.echo(f"Exported {exported:,} plants", err=True)


def _format_of(file: Path, name: FormatName | None) -> Format:
    key = file.suffix.removeprefix(".").lower() if name is None else name.value
    if key not in FORMATS:
        raise UsageError(
            f"The format of {file} is unknown: name the file .csv or .jsonl, or give --format"
        )
    return FORMATS[key]


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[BinaryIO]:
    if file == _STANDARD_STREAM:
        yield standard_stream(sys.stdin)
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


def _store_rows(
    rows: Iterable[Row], store: PlantStore, reject: Callable[[Row, RequestError], None]
) -> Iterator[list[Outcome]]:
    """Store the plants of the rows, and yield the outcomes of each transaction."""
    for batch, plants in batches(rows, reject):
        outcomes: list[Outcome] = []
        for row, plant, result in zip(batch, plants, _store(store, plants), strict=True):
            if isinstance(result, Outcome):
                outcomes.append(result)
            if isinstance(result, BatchRefusedError):
                reject(row, result)
            elif result is Outcome.ID_TAKEN:
                reject(row, IdTakenError(plant.id))
        yield outcomes


def _store(store: PlantStore, plants: Sequence[NewPlant]) -> list[Outcome | BatchRefusedError]:
    """Store plants. A plant that the store refuses does not affect the others."""

    def explain(error: Exception, _plants: int) -> BatchRefusedError:
        if isinstance(error, BatchRefusedError):
            return error
        raise error

    return run_by_halves(store.apply_changes, plants, explain)


def batches(
    rows: Iterable[Row],
    reject: Callable[[Row, RequestError], None],
    *,
    plants_max: int = BATCH_PLANTS_MAX,
    characters_max: int = BATCH_CHARACTERS_MAX,
) -> Iterator[tuple[list[Row], list[NewPlant]]]:
    """Yield the rows and the plants of one transaction after the other.

    A batch is complete when it reaches one of the two sizes.
    """
    batch: list[Row] = []
    plants: list[NewPlant] = []
    characters = 0
    for row in rows:
        content = row.content
        if isinstance(content, RequestError):
            reject(row, content)
            continue
        batch.append(row)
        plants.append(content)
        characters += len(row.raw)
        if len(plants) >= plants_max or characters >= characters_max:
            yield batch, plants
            batch, plants, characters = [], [], 0
    if plants:
        yield batch, plants


@contextlib.contextmanager
def _writing(file: Path | None, database: str, *, force: bool) -> Iterator[BinaryIO]:
    if file is None:
        yield standard_stream(sys.stdout)
        return
    with new_file(file, database, force=force, mode=0o666) as partial, partial.open("wb") as target:
        yield target


def _write_all(store: Maintenance, form: Format, target: BinaryIO, report: Report) -> int:
    exported, total = 0, store.count_plants()
    target.write(form.head)
    with contextlib.closing(store.scan_plants()) as scan:
        for plants in scan:
            target.write(form.render(plants))
            exported += len(plants)
            report(exported, total, exported)
    target.flush()
    return exported
