"""`plantstore backup`, `check`, `stats` and `migrate`."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from plantstore.cli.files import new_file
from plantstore.cli.opening import opened_store
from plantstore.cli.progress import progress
from plantstore.errors import OperationError
from plantstore.settings import DATABASE_DEFAULT, Database
from plantstore.storage import display_url, open_for_maintenance
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Condition


def backup(
    file: Annotated[Path, typer.Argument(help="The file of the copy. It is a database, too.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    database: Database = DATABASE_DEFAULT,
) -> None:
    """Copy the database to a file, and check the copy.

    The copy is a consistent snapshot, even while a service uses the database.
    """
    for log in (Path(f"{file.resolve()}{suffix}") for suffix in ("-wal", "-journal")):
        if log.exists():  # SQLite would apply it to the copy
            raise OperationError(
                f"{log} exists: {file} is in use, or was not closed correctly; choose another file"
            )
    with (
        contextlib.closing(open_for_maintenance(database)) as store,
        new_file(file, database, force=force, mode=0o600) as partial,
        progress("Backing up") as report,
    ):
        copy = store.back_up(str(partial), report)
    typer.echo(_describe(copy))
    typer.echo("The copy has no errors")


def check(database: Database = DATABASE_DEFAULT) -> None:
    """Check the database for errors.

    The exit status is 1 if there are any.
    """
    with contextlib.closing(open_for_maintenance(database)) as store:
        found = store.check()
    typer.echo(_describe(found))
    for problem in found.problems:
        typer.echo(problem, err=True)
    if found.problems:
        raise typer.Exit(1)
    typer.echo("No errors found")


def stats(database: Database = DATABASE_DEFAULT) -> None:
    """Show the number of plants."""
    with contextlib.closing(open_for_maintenance(database)) as store:
        typer.echo(f"Plants: {store.count_plants():,}")


def migrate(database: Database = DATABASE_DEFAULT) -> None:
    """Create the database, or update its schema.

    Afterwards, serve --no-migrate can use it.
    """
    with opened_store(database, SchemaPolicy.MIGRATE):
        typer.echo(f"The schema of {display_url(database)} is up to date")


def _describe(found: Condition) -> str:
    return f"Plants: {found.plants:,}, tokens: {found.tokens:,}, schema: {found.schema}"
