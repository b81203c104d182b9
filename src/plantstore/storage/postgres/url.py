"""What the URL of a PostgreSQL says: which servers, and how they are reached."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from plantstore.errors import UsageError

# What a URL leaves out. Several servers are asked which of them takes writes; a connection on
# which nothing comes back is given up after a minute.
PARAMETERS_DEFAULT: Final[Mapping[str, str | int]] = MappingProxyType(
    {
        "application_name": "plantstore",
        "connect_timeout": 3,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
        "target_session_attrs": "read-write",
    }
)

# What every session has from its start. A pooler that would hand sessions from one client to
# another in between, and with them what is set afterwards, refuses it unless it is told not to.
_OPTIONS: Final = r"-cdefault_transaction_isolation=read\ committed"


class Server(NamedTuple):
    """A server that a URL names: what messages call it, and how it is reached."""

    name: str
    conninfo: str


def parse_url(url: str) -> str:
    """Read the URL of a database, as libpq does, and return it with what it leaves out.

    Raises:
        UsageError: it is no URL of PostgreSQL. It is not quoted: it may hold a password.

    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise _unreadable() from None
    # What libpq makes of a password with a special character in it.
    if "@" in f"{given.get('host')}{given.get('dbname')}" or not re.fullmatch(
        r"[\d,]*", str(given.get("port", ""))
    ):
        raise _unreadable()
    ours = {"client_encoding": "UTF8", "options": f"{given.get('options') or ''} {_OPTIONS}"}
    return make_conninfo("", **{**PARAMETERS_DEFAULT, **given, **ours})


def servers_of(conninfo: str) -> list[Server]:
    """Return the servers of a connection string, each with one of its own.

    Lists of hosts, addresses and ports are as long as each other; a single port is that of all
    (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-MULTIPLE-HOSTS).

    Raises:
        UsageError: they are not.

    """
    # What the environment says where the connection string is silent (PGHOST, say).
    defaults = {
        default.keyword.decode(): default.val.decode()
        for default in Conninfo.get_defaults()
        if default.val and default.keyword in (b"host", b"hostaddr", b"port")
    }
    given: dict[str, Any] = {**defaults, **conninfo_to_dict(conninfo)}
    lists = {
        key: str(given[key]).split(",") for key in ("host", "hostaddr", "port") if given.get(key)
    }
    many = max((len(lists[key]) for key in ("host", "hostaddr") if key in lists), default=1)
    if len(lists.get("port", "")) == 1:
        lists["port"] *= many
    if any(len(values) != many for values in lists.values()):
        raise UsageError("The database's URL must have one port, or as many ports as hosts")
    servers = []
    for parts in ({key: values[n] for key, values in lists.items()} for n in range(many)):
        host = parts.get("host") or parts.get("hostaddr") or "local"
        name = f"{host}:{parts.get('port') or '5432'}"
        servers.append(Server(name, make_conninfo("", **{**given, **parts})))
    return servers


def _unreadable() -> UsageError:
    return UsageError(
        "The database's URL cannot be read; expected postgresql://USER@HOST:PORT/NAME, in which"
        " what is special in a password is percent-encoded"
    )
