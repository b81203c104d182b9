"""`plantstore export`: write all plants to a file."""

import contextlib
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import click

from plantstore.cli.files import new_file, standard_stream
from plantstore.cli.options import (
    FILE,
    file_format,
    format_of,
    refuse_contradictions,
    settings,
    transfers,
)
from plantstore.cli.progress import Report, progress
from plantstore.errors import OperationError
from plantstore.formats import Format
from plantstore.plants import NewPlant
from plantstore.storage import open_for_maintenance

_STDOUT: Final = Path("-")


class _Source(NamedTuple):
    """Where the plants come from.

    `scan` begins a scan; `total` is the number of plants, if it is known. `run` calls a function
    that scans, perhaps again if the scan is interrupted.
    """

    scan: Callable[[], Generator[list[NewPlant], None, None]]
    total: int | None
    run: Callable[[Callable[[], int]], int]


@click.command()
@click.argument(
    "file", type=FILE, required=False, help="A .csv or .jsonl file. Default: stdout, as JSON lines."
)
@file_format
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@settings("database")
@transfers
@click.pass_context
def export(
    context: click.Context,
    *,
    file: Path | None,
    file_format: str | None,
    database: str,
    url: str | None,
    token_file: Path | None,
    ca: Path | None,
    force: bool,
) -> None:
    """Write all plants to a file, in order of id.

    The file is a consistent snapshot, even while a service uses the database.
    """
    form = format_of(Path("plants.jsonl") if file is None else file, file_format)
    refuse_contradictions(context, only_local={"database"})
    named = None if file in (None, _STDOUT) else file
    with (
        _opened(database) if url is None else _connected(url, token_file, ca) as source,
        _writing(named, database, force=force) as target,
        progress("Exporting") as report,
    ):
        has_begun = False

        def write() -> int:
            nonlocal has_begun
            plants = source.scan()
            if named is not None:
                target.seek(0)
                target.truncate()
            elif has_begun:
                raise OperationError("The export was interrupted; name a file to have it repeated")
            has_begun = True
            return _write_all(plants, source.total, form, target, report)

        exported = source.run(write)
    click.echo(f"Exported {exported:,} plants", err=True)


@contextlib.contextmanager
def _opened(database: str) -> Iterator[_Source]:
    with contextlib.closing(open_for_maintenance(database)) as store:
        yield _Source(store.scan_plants, store.count_plants(), lambda write: write())


@contextlib.contextmanager
def _connected(url: str, token_file: Path | None, ca: Path | None) -> Iterator[_Source]:
    # Imported late: it loads an HTTP client and TLS.
    from plantstore.cli.remote import RemoteService  # noqa: PLC0415

    with contextlib.closing(RemoteService(url, token_file, ca)) as service:
        yield _Source(service.scan_plants, None, service.with_retries)


@contextlib.contextmanager
def _writing(file: Path | None, database: str, *, force: bool) -> Iterator[BinaryIO]:
    if file is None:
        yield standard_stream(sys.stdout)
        return
    with new_file(file, database, force=force, mode=0o666) as partial, partial.open("wb") as target:
        yield target


def _write_all(
    plants: Generator[list[NewPlant], None, None],
    total: int | None,
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
