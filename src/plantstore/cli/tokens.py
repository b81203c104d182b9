"""`plantstore token`: the tokens that requests carry."""

import os
import re
import sys
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from plantstore.cli.files import standard_stream
from plantstore.cli.opening import opened_store
from plantstore.errors import UsageError
from plantstore.settings import (
    DATABASE_DEFAULT,
    MIGRATE_DEFAULT,
    STANDBYS_MIN_DEFAULT,
    Database,
    Migrate,
    StandbysMin,
)
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import TokenStore
from plantstore.tokens import DEFAULT_SCOPES, SCOPES, TokenRecord, digest, mint

tokens = typer.Typer(help="Create, list and revoke the tokens that requests carry.")

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

# How wide the table is where no terminal says how wide it may be.
_PIPED_COLUMNS: Final = 200

# The last second of the year 9999, beyond which a date cannot be written.
_TIME_MAX: Final = 253_402_300_799


def show_new_token(
    store: TokenStore,
    name: str,
    scopes: Iterable[str],
    lifetime_seconds: int | None = None,
    text: str = "{secret}\n",
) -> None:
    """Create a token, and write its secret to stdout, in a text: nobody can learn it again.

    Raises:
        UsageError: the name is taken, the token would outlive the year 9999, or stdout
            cannot be written. Then there is no such token.

    """
    # Not through Python's buffer: what it could not write, it would try again at the exit.
    stdout = standard_stream(sys.stdout).fileno()
    now = int(time.time())
    expires_at = None if lifetime_seconds is None else now + lifetime_seconds
    if expires_at is not None and expires_at > _TIME_MAX:
        raise UsageError("The token would outlive the year 9999; leave --expires-in out instead")
    secret = mint()
    record = TokenRecord(name, digest(secret), frozenset(scopes), now, expires_at)
    # It is stored first: a secret that is shown is good.
    store.add_token(record)
    rest = text.format(secret=secret).encode()
    try:
        while rest:
            rest = rest[os.write(stdout, rest) :]
    except OSError as error:
        store.forget_token(record.digest)
        raise UsageError(
            f"No token is created, since stdout cannot show it: {error.strerror}"
        ) from error


@tokens.command()
def create(
    name: Annotated[str, typer.Argument(help="What to call it. A name is never used twice.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help=f"What it may do; give one --scope for each of {', '.join(SCOPES)}. "
            f"Without any: {', '.join(DEFAULT_SCOPES)}.",
        ),
    ] = None,
    expires_in: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="How long it is good for: 90s, 15m, 12h, 30d or 8w. Without it: for ever.",
        ),
    ] = None,
    *,
    database: Database = DATABASE_DEFAULT,
    migrate: Migrate = MIGRATE_DEFAULT,
    standbys_min: StandbysMin = STANDBYS_MIN_DEFAULT,
) -> None:
    """Create a token, and print its secret on stdout: the only time that it is shown."""
    scopes = scope or DEFAULT_SCOPES
    _check_name(name)
    if unknown := sorted(set(scopes) - set(SCOPES)):
        raise UsageError(f"A scope must be one of {', '.join(SCOPES)}; got {', '.join(unknown)}")
    lifetime_seconds = None if expires_in is None else _parse_seconds(expires_in)
    policy = SchemaPolicy.of(migrate=migrate)
    with opened_store(database, policy, standbys_min=standbys_min) as store:
        show_new_token(store, name, scopes, lifetime_seconds)
    granted = ", ".join(sorted(scopes))
    typer.echo(f"Created the token {name} for {granted}. Its secret is shown this once.", err=True)


@tokens.command("list")
def list_tokens(
    *,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON array, not a table.")] = False,
    database: Database = DATABASE_DEFAULT,
    migrate: Migrate = MIGRATE_DEFAULT,
) -> None:
    """List the tokens, the oldest first. Their secrets are not known."""
    policy = SchemaPolicy.of(migrate=migrate, may_create=False)
    with opened_store(database, policy) as store:
        records = store.list_tokens()
    rows = [_describe(record, time.time()) for record in records]
    if json:
        typer.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
        return
    if not rows:
        typer.echo("There is no token yet.", err=True)
        return
    # It takes longer to load than the other commands take.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=None)
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        # As text: a name is data, and Rich would read markup in a string.
        table.add_row(*(Text(value or "-") for value in row.values()))
    Console(width=None if sys.stdout.isatty() else _PIPED_COLUMNS).print(table)


@tokens.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The token's name.")],
    database: Database = DATABASE_DEFAULT,
    migrate: Migrate = MIGRATE_DEFAULT,
    standbys_min: StandbysMin = STANDBYS_MIN_DEFAULT,
) -> None:
    """Revoke a token for good; a running service refuses it within two seconds."""
    _check_name(name)
    now = int(time.time())
    policy = SchemaPolicy.of(migrate=migrate, may_create=False)
    with opened_store(database, policy, standbys_min=standbys_min) as store:
        before = {record.name: record.revoked_at for record in store.list_tokens()}
        record = store.revoke_token(name, now)
    if before.get(name) is None:
        typer.echo(f"Revoked the token {name}.", err=True)
    else:
        typer.echo(f"The token {name} was revoked already, {_date(record.revoked_at)}.", err=True)


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise UsageError("A token's name must be printable, and not blank")


def _describe(record: TokenRecord, now: float) -> dict[str, str | None]:
    return {
        "name": record.name,
        "state": record.state(now),
        "scopes": " ".join(sorted(record.scopes)),
        "created": _date(record.created_at),
        "expires": _date(record.expires_at),
        "revoked": _date(record.revoked_at),
    }


def _date(seconds: int | None) -> str | None:
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _parse_seconds(text: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,9})([smhdw])", text)
    if match is None:
        raise UsageError(f"--expires-in must be a number and s, m, h, d or w; got {text}")
    return int(match[1]) * _UNIT_SECONDS[match[2]]
