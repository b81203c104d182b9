"""Opens a store for a command or for the service."""

import contextlib
import shlex
from collections.abc import Iterator

import click

from plantstore.errors import SchemaOutdatedError
from plantstore.observe import DatabaseCreated, Event, Observer, migration_progress
from plantstore.settings import Settings
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Store


def open_named(
    database: str,
    policy: SchemaPolicy,
    *,
    standbys_min: int,
    observe: Observer,
    grant_to: str | None = None,
) -> Store:
    """Open a store. An error that ends with a command has the option that names the database."""
    try:
        return open_store(
            database, policy, standbys_min=standbys_min, observe=observe, grant_to=grant_to
        )
    except SchemaOutdatedError as error:
        raise SchemaOutdatedError(f"{error.message}{database_option(database)}") from error


def database_option(database: str) -> str:
    """Return the option that names a database in a command; empty if it needs none.

    The URL of a PostgreSQL database may contain a password, so it is never shown.
    """
    if not database.startswith("sqlite:") or database == Settings().database:
        return ""
    return f" --database {shlex.quote(database)}"


@contextlib.contextmanager
def opened_store(
    database: str, policy: SchemaPolicy, *, standbys_min: int = 0, grant_to: str | None = None
) -> Iterator[Store]:
    """Open a store for the block. Report on stderr if this creates its file or migrates it."""
    store = open_named(
        database, policy, standbys_min=standbys_min, observe=_report, grant_to=grant_to
    )
    with contextlib.closing(store):
        yield store


def _report(event: Event) -> None:
    if isinstance(event, DatabaseCreated):
        click.echo(f"Created the database {event.file}", err=True)
    elif progress := migration_progress(event):
        click.echo(progress, err=True)
