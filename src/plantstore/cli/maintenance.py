"""`plantstore backup`, `check`, `reindex`, `stats` and `migrate`."""

from pathlib import Path

import click

from plantstore.cli.opening import database_option, new_file, opened_store, progress, real_path
from plantstore.cli.options import FILE, settings
from plantstore.errors import OperationError
from plantstore.storage import display_url, require_utf8
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import CheckReport, Remedy


@click.command()
@click.argument("file", type=FILE, help="The file of the copy. It is a database, too.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@settings("database")
def backup(file: Path, database: str, *, force: bool) -> None:
    """Copy the database to a file, and check the copy.

    The copy is a consistent snapshot, even while a service uses the database.
    """
    target = real_path(file)
    require_utf8("FILE", str(target))
    for log in (Path(f"{target}{suffix}") for suffix in ("-wal", "-journal")):
        if log.exists():  # SQLite would apply it to the copy
            raise OperationError(
                f"{log} exists: {file} is in use, or was not closed correctly; choose another file"
            )
    with (
        opened_store(database, SchemaPolicy.ACCEPT) as store,
        new_file(file, database, force=force, mode=0o600) as partial,
    ):
        with progress("Backing up") as report:
            copy = store.back_up(str(partial), report)
        if copy.problems and copy.remedy is not Remedy.REINDEX:
            _show(copy, database)
            raise OperationError("The copy has errors, so it was not kept")
    _show(copy, database)  # the copy is kept even if this cannot be written
    click.echo("The copy has all plants" if copy.problems else "The copy has no errors")


@click.command()
@settings("database")
def check(database: str) -> None:
    """Check the database for errors.

    The exit status is 1 if there are any.
    """
    with opened_store(database, SchemaPolicy.ACCEPT) as store:
        found = store.check()
    _show(found, database)
    if found.problems:
        raise click.exceptions.Exit(1)
    click.echo("No errors found")


@click.command()
@settings("database", "standbys_min")
def reindex(database: str, standbys_min: int) -> None:
    """Rebuild the index for searches, and count the plants.

    Run it if `plantstore check` finds that they differ from the plants. Services may use the
    database meanwhile. On SQLite, searches, tags and listings by name get 503 until the end. If
    the command is interrupted, run it again, or restart the service.
    """
    with (
        opened_store(database, SchemaPolicy.REQUIRE, standbys_min=standbys_min) as store,
        progress("Indexing") as report,
    ):
        damage = store.reindex(report)
    if damage is not None:
        raise OperationError(f"The database is damaged: {damage}. Restore a backup")
    click.echo("Rebuilt the index and counted the plants")


@click.command()
@settings("database")
def stats(database: str) -> None:
    """Show the number of plants."""
    with opened_store(database, SchemaPolicy.ACCEPT) as store:
        click.echo(f"Plants: {store.count_plants():,}")


@click.command()
@click.option(
    "--grant-to",
    metavar="ROLE",
    help="Also give this role of PostgreSQL the rights that serve --no-migrate needs.",
)
@settings("database")
def migrate(database: str, grant_to: str | None) -> None:
    """Create the database, or update its schema.

    Afterwards, serve --no-migrate can use it.
    """
    with opened_store(database, SchemaPolicy.MIGRATE, grant_to=grant_to):
        click.echo(f"The schema of {display_url(database)} is up to date")


def _show(found: CheckReport, database: str) -> None:
    """Show the result of a check, its problems, and what to do about them."""
    click.echo(f"Plants: {found.plants:,}, tokens: {found.tokens:,}, schema: {found.schema}")
    for problem in found.problems:
        click.echo(problem, err=True)
    for note in found.notes:
        click.echo(f"Note: {note}", err=True)
    if found.remedy is Remedy.RESTORE:
        click.echo("The database is damaged: restore a backup", err=True)
    elif found.remedy is Remedy.REINDEX:
        click.echo(f"Run: plantstore reindex{database_option(database)}", err=True)
