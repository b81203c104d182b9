"""`plantstore token`: create, list and revoke tokens."""

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Final

import click
import msgspec

from plantstore.cli.opening import database_option, opened_store, standard_stream
from plantstore.cli.options import settings
from plantstore.errors import OperationError, UsageError, quoted
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import TokenStore
from plantstore.tokens import DEFAULT_SCOPES, SCOPES, TokenRecord, digest, mint, render_time


@click.group("token", no_args_is_help=False)
def tokens() -> None:
    """Create, list and revoke tokens."""


_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}

# The last second of the year 9999, the latest that `render_time` can render.
_TIME_MAX: Final = 253_402_300_799


def show_new_token(
    store: TokenStore,
    name: str,
    scopes: Iterable[str],
    expires_at: int | None = None,
    text: str = "{secret}\n",
) -> None:
    """Create a token, and write its secret to stdout in a text. It cannot be shown again.

    Raises:
        OperationError: the name is taken, or stdout cannot be written. No token is created.

    """
    # Bypass Python's buffer: after a failure, it would try to write the secret again at exit.
    stdout = standard_stream(sys.stdout).fileno()
    secret = mint()
    record = TokenRecord(name, digest(secret), frozenset(scopes), int(time.time()), expires_at)
    # Store it first, so that a secret that is shown is valid.
    store.add_token(record)
    rest = text.format(secret=secret).encode()
    try:
        while rest:
            rest = rest[os.write(stdout, rest) :]
    except OSError as error:
        store.forget_token(record.digest)
        raise OperationError(
            f"No token was created, because stdout cannot be written: {error.strerror}"
        ) from error


@tokens.command()
@click.argument("name", help="The token's name. It cannot be used again.")
@click.option(
    "--scope",
    type=click.Choice([*SCOPES, "all"]),
    multiple=True,
    metavar="SCOPE",
    help=f"What the token permits: {', '.join(SCOPES)}, or all of them: all. "
    f"Repeat the option for several. Default: {', '.join(DEFAULT_SCOPES)}.",
)
@click.option(
    "--expires-in",
    metavar="TIME",
    help="How long it is valid, such as 90s, 15m, 12h, 30d or 8w. Default: no end.",
)
@settings("database", "standbys_min")
def create(
    name: str,
    scope: tuple[str, ...],
    expires_in: str | None,
    database: str,
    standbys_min: int,
) -> None:
    """Create a token and print its secret on stdout.

    The secret is shown only once.
    """
    scopes = SCOPES if "all" in scope else scope or DEFAULT_SCOPES
    _check_name(name)
    expires_at = None if expires_in is None else _parse_expiry(expires_in)
    with opened_store(database, SchemaPolicy.CREATE, standbys_min=standbys_min) as store:
        show_new_token(store, name, scopes, expires_at)
    granted = ", ".join(sorted(scopes))
    click.echo(f"Created the token {name} for {granted}. Its secret is shown only once.", err=True)


@tokens.command("list")
@click.option("--json", is_flag=True, help="Print a JSON array, not a table.")
@settings("database")
def list_tokens(database: str, *, json: bool) -> None:
    """List the tokens, oldest first, without their secrets.

    ENDS is the day on which the token expires, or was revoked. --json has the exact times.
    """
    with opened_store(database, SchemaPolicy.ACCEPT) as store:
        records = store.list_tokens()
    now = time.time()
    if json:
        rows = [_describe(record, now) for record in records]
        click.echo(msgspec.json.format(msgspec.json.encode(rows)).decode())
    elif records:
        click.echo("\n".join(_table(records, now)))
    else:
        command = f"plantstore token create NAME{database_option(database)}"
        click.echo(f"There are no tokens. Create one: {command}", err=True)


def _table(records: Iterable[TokenRecord], now: float) -> Iterator[str]:
    """Yield the lines of a table. A line is never cut, so the widest column is the last."""
    rows = [("NAME", "STATE", "CREATED", "ENDS", "SCOPES")]
    for record in records:
        ends = record.expires_at if record.revoked_at is None else record.revoked_at
        scopes = " ".join(sorted(record.scopes))
        rows.append((record.name, record.state(now), _day(record.created_at), _day(ends), scopes))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for *cells, last in rows:
        yield "  ".join([*map(str.ljust, cells, widths), last])


@tokens.command()
@click.argument("name", help="The name of the token.")
@settings("database", "standbys_min")
def revoke(name: str, database: str, standbys_min: int) -> None:
    """Revoke a token permanently.

    A running service refuses it within two seconds.
    """
    _check_name(name)
    with opened_store(database, SchemaPolicy.REQUIRE, standbys_min=standbys_min) as store:
        record = store.revoke_token(name, int(time.time()))
    click.echo(f"The token {name} was revoked at {_date(record.revoked_at)}.", err=True)


def _check_name(name: str) -> None:
    if not name.strip() or not name.isprintable():
        raise UsageError("The name of a token must be printable and not blank")


def _describe(record: TokenRecord, now: float) -> dict[str, str | list[str] | None]:
    return {
        "name": record.name,
        "state": record.state(now),
        "scopes": sorted(record.scopes),
        "created": _date(record.created_at),
        "expires": _date(record.expires_at),
        "revoked": _date(record.revoked_at),
    }


def _date(seconds: int | None) -> str | None:
    return None if seconds is None else render_time(seconds)


def _day(seconds: int | None) -> str:
    return (_date(seconds) or "-").partition("T")[0]


def _parse_expiry(text: str) -> int:
    """Return when a token expires that is valid for this time from now on."""
    match = re.fullmatch(r"([1-9][0-9]{0,9})([smhdw])", text)
    if match is None:
        raise UsageError(
            f"--expires-in must be a number above 0, and s, m, h, d or w; got {quoted(text)}"
        )
    return min(int(time.time()) + int(match[1]) * _UNIT_SECONDS[match[2]], _TIME_MAX)
