"""`plantstore backup` and `plantstore check`: a copy of the store, and whether it is whole."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from plantstore.cli.files import new_file
from plantstore.cli.opening import opened_store
from plantstore.cli.progress import progress
from plantstore.errors import UsageError
from plantstore.settings import DATABASE_DEFAULT, Database
from plantstore.storage import display_url, open_for_maintenance
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Condition


def backup(
    file: Annotated[Path, typer.Argument(help="Where the copy goes: a database like the store's.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    database: Database = DATABASE_DEFAULT,
) -> None:
    """Copy the store as of one moment, while it is in use, and check the copy."""
    for log in (Path(f"{file.resolve()}{suffix}") for suffix in ("-wal", "-journal")):
        if log.exists():  # SQLite would play it back into the copy
            raise UsageError(f"{log} is there: the file is in use, or was not closed in good order")
    with (
        contextlib.closing(open_for_maintenance(database)) as store,
        new_file(file, database, force=force, mode=0o600) as partial,
        progress("Backing up") as report,
    ):
        copy = store.back_up(str(partial), report)
    typer.echo(_describe(copy))
    typer.echo("The copy is whole")


def check(database: Database = DATABASE_DEFAULT) -> None:
    """Check that all that is stored is whole. The status is 1 if anything is wrong."""
    with contextlib.closing(open_for_maintenance(database)) as store:
        found = store.check()
    typer.echo(_describe(found))
    for problem in found.problems:
        typer.echo(problem, err=True)
    if found.problems:
        raise typer.Exit(1)
    typer.echo("No problem was found")


def migrate(database: Database = DATABASE_DEFAULT) -> None:
    """Make the store, or bring its schema up to date; then serve --no-migrate need not."""
    with opened_store(database, SchemaPolicy.MIGRATE):
        typer.echo(f"The schema of {display_url(database)} is up to date")


def _describe(found: Condition) -> str:
    return f"Plants: {found.plants:,}, tokens: {found.tokens:,}, schema: {found.schema}"
