"""`plantstore import` and `plantstore export`: plants from a file, and into one."""

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Self

import msgspec
import typer

from plantstore.cli.files import insist_on_other_file, new_file, standard_stream
from plantstore.cli.opening import opened_store
from plantstore.cli.progress import Report, progress
from plantstore.errors import BatchRefusedError, IdTakenError, UsageError
from plantstore.formats import FORMATS, Format
from plantstore.formats.rows import Reject, Row
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
    characters_in,
)

# Plants in one transaction. A service that runs on the same file waits for the transaction,
# which takes some twenty-five milliseconds.
BATCH_PLANTS_MAX: Final = 10_000

# What a row may have beyond the body of a request: that of a replacement has no id.
ROW_SLACK_BYTES: Final = 1024

# As many refused rows are shown where no file takes them.
SHOWN_REJECTS_MAX: Final = 10


_STANDARD_STREAM: Final = Path("-")


class FormatName(Enum):
    """What `--format` takes."""

    CSV = "csv"
    JSONL = "jsonl"


def import_plants(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .csv file with a header, or a .jsonl file. - is stdin, and needs --format."
        ),
    ],
    file_format: Annotated[
        FormatName | None, typer.Option("--format", help="What the file holds.")
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write refused rows to this file: JSON lines with line, error, message and row.",
        ),
    ] = None,
    *,
    body_bytes_max: BodyBytesMax = BODY_BYTES_MAX_DEFAULT,
    database: Database = DATABASE_DEFAULT,
    migrate: Migrate = MIGRATE_DEFAULT,
    standbys_min: StandbysMin = STANDBYS_MIN_DEFAULT,
) -> None:
    """Store the plants of a file. A refused row stops nothing, but makes the status 1."""
    form = _format_of(file, file_format)
    policy = SchemaPolicy.of(migrate=migrate)
    with (
        _reading(file) as source,
        contextlib.closing(form.read(source, body_bytes_max + ROW_SLACK_BYTES)) as rows,
        opened_store(database, policy, standbys_min=standbys_min) as store,
        _Refusals(rejects, source, database) as refusals,
    ):
        stored = there = 0
        size = _size(source)
        try:
            with progress("Importing") as report:
                for outcomes in _store_rows(rows, store, form, refusals.add):
                    stored += outcomes.count(Outcome.STORED)
                    there += outcomes.count(Outcome.ALREADY_STORED)
                    report(source.tell() if size else 0, size, stored + there)
        finally:
            typer.echo(f"{stored:,} stored, {there:,} already there, {refusals.count:,} rejected")
    if refusals.count:
        raise typer.Exit(1)


def export(
    file: Annotated[
        Path | None,
        typer.Argument(help="A .csv or .jsonl file. Without it: stdout, as JSON lines."),
    ] = None,
    file_format: Annotated[
        FormatName | None, typer.Option("--format", help="What to write.")
    ] = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    database: Database = DATABASE_DEFAULT,
) -> None:
    """Write every plant to a file, as of one moment, in order of id."""
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
        raise UsageError(f"{file} is no .csv and no .jsonl file; say with --format which it is")
    return FORMATS[key]


@contextlib.contextmanager
def _reading(file: Path) -> Iterator[BinaryIO]:
    if file == _STANDARD_STREAM:
        yield standard_stream(sys.stdin)
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    with source:
        yield source


def _size(source: BinaryIO) -> int | None:
    """Return the bytes of a file, or None of a stream."""
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


class _Refusals:
    """Counts refused rows, and writes them to a file, or the first ones to stderr."""

    def __init__(self, path: Path | None, source: BinaryIO, database: str) -> None:
        self.count = 0
        self._path = path
        self._file: BinaryIO | None = None
        if path is None:
            return
        with self._writing():
            insist_on_other_file(path, database)
            if path.exists() and os.path.samestat(path.stat(), os.fstat(source.fileno())):
                raise UsageError(f"{path} is the file that is imported")
            self._file = path.open("wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, line: int, reject: Reject) -> None:
        self.count += 1
        error = reject.error
        if self._file is not None:
            row = reject.text.encode(errors="replace").decode()
            record = {"line": line, "error": error.code, "message": error.message, "row": row}
            with self._writing():
                self._file.write(msgspec.json.encode(record) + b"\n")
        elif self.count <= SHOWN_REJECTS_MAX:
            typer.echo(f"line {line}: {error.message}", err=True)
        elif self.count == SHOWN_REJECTS_MAX + 1:
            typer.echo("More rows are rejected; --rejects FILE keeps them all", err=True)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UsageError(f"{self._path} cannot be written: {error.strerror}") from error


def _store_rows(
    rows: Iterable[Row], store: PlantStore, form: Format, refuse: Callable[[int, Reject], None]
) -> Iterator[list[Outcome]]:
    """Store the plants of the rows, and yield what became of those of each transaction."""
    for lines, plants in batches(rows, refuse):
        outcomes: list[Outcome] = []
        for line, plant, result in zip(lines, plants, _store(store, plants), strict=True):
            if isinstance(result, Outcome):
                outcomes.append(result)
            if isinstance(result, BatchRefusedError):
                refuse(line, Reject(result, form.render([plant]).decode()))
            elif result is Outcome.ID_TAKEN:
                refuse(line, Reject(IdTakenError(plant.id), form.render([plant]).decode()))
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
    refuse: Callable[[int, Reject], None],
    *,
    plants_max: int = BATCH_PLANTS_MAX,
    characters_max: int = BATCH_CHARACTERS_MAX,
) -> Iterator[tuple[list[int], list[NewPlant]]]:
    """Yield plants for one transaction after the other, and the lines that they begin on.

    A batch that has one of the two sizes, or more, is complete.
    """
    lines: list[int] = []
    plants: list[NewPlant] = []
    characters = 0
    for line, row in rows:
        if isinstance(row, Reject):
            refuse(line, row)
            continue
        lines.append(line)
        plants.append(row)
        characters += characters_in(row)
        if len(plants) >= plants_max or characters >= characters_max:
            yield lines, plants
            lines, plants, characters = [], [], 0
    if plants:
        yield lines, plants


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
