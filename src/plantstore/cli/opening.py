"""Opens a store for a command."""

import contextlib
from collections.abc import Iterator

import click

from plantstore.observe import DatabaseCreated, Event, NamesIndexed
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Store


@contextlib.contextmanager
def opened_store(database: str, policy: SchemaPolicy, *, standbys_min: int = 0) -> Iterator[Store]:
    """Open a store for the block. Report on stderr if this creates its file or its index."""
    store = open_store(database, policy, standbys_min=standbys_min, observe=_report)
    with contextlib.closing(store):
        yield store


def _report(event: Event) -> None:
    if isinstance(event, DatabaseCreated):
        click.echo(f"Created the database {event.file}", err=True)
    elif isinstance(event, NamesIndexed):
        click.echo(f"Indexed the names of {event.plants:,} of {event.total:,} plants", err=True)
