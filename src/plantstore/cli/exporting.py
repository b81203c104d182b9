"""`plantstore export`: write all plants to a file."""

import contextlib
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import click

from plantstore.cli.files import new_file, standard_stream
from plantstore.cli.options import FILE, file_format, format_of, settings
from plantstore.cli.progress import Report, progress
from plantstore.formats import Format
from plantstore.plants import NewPlant
from plantstore.storage import open_for_maintenance

_STDOUT: Final = Path("-")


@click.command()
@click.argument(
    "file", type=FILE, required=False, help="A .csv or .jsonl file. Default: stdout, as JSON lines."
)
@file_format
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@settings("database")
def export(file: Path | None, *, file_format: str | None, database: str, force: bool) -> None:
    """Write all plants to a file, in order of id.

    The file is a consistent snapshot, even while a service uses the database.
    """
    form = format_of(Path("plants.jsonl") if file is None else file, file_format)
    with (
        contextlib.closing(open_for_maintenance(database)) as store,
        _writing(None if file == _STDOUT else file, database, force=force) as target,
        progress("Exporting") as report,
    ):
        exported = _write_all(store.scan_plants(), store.count_plants(), form, target, report)
    click.echo(f"Exported {exported:,} plants", err=True)


@contextlib.contextmanager
def _writing(file: Path | None, database: str, *, force: bool) -> Iterator[BinaryIO]:
    if file is None:
        yield standard_stream(sys.stdout)
        return
    with new_file(file, database, force=force, mode=0o666) as partial, partial.open("wb") as target:
        yield target


def _write_all(
    plants: Generator[list[NewPlant], None, None],
    total: int,
    form: Format,
    target: BinaryIO,
    report: Report,
) -> int:
    exported = 0
    target.write(form.head)
    with contextlib.closing(plants) as pages:
        for page in pages:
            target.write(form.render(page))
            exported += len(page)
            report(exported, total, exported)
    target.flush()
    return exported
