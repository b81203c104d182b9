"""Parses the URLs of PostgreSQL databases."""

import difflib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo

from plantstore.errors import UsageError, quoted

# The defaults for parameters that are missing in a URL. Of several servers, libpq uses the first
# that accepts writes. A connection without any answer is closed after a minute.
PARAMETERS_DEFAULT: Final[Mapping[str, str | int]] = {
    "application_name": "plantstore",
    "connect_timeout": 3,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
    "target_session_attrs": "read-write",
}

_NUMBERS: Final = [name for name, value in PARAMETERS_DEFAULT.items() if isinstance(value, int)]

# An option that every session starts with. A pooler that shares sessions between clients refuses
# such an option, unless it is configured to ignore it.
_OPTIONS: Final = r"-cdefault_transaction_isolation=read\ committed"


class Host(NamedTuple):
    """A host of a URL: its name in messages, and its parameters in a connection string."""

    name: str
    parameters: dict[str, str]


def parse_url(url: str) -> str:
    """Parse the URL of a database as libpq does.

    Returns:
        A connection string with all defaults.

    Raises:
        UsageError: the URL is malformed. The message does not show it, because it may contain
            a password.

    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise _unreadable(_unknown_parameter(url)) from None
    # This is how libpq parses a URL whose password contains a special character.
    if "@" in f"{given.get('host')}{given.get('dbname')}":
        raise _unreadable()
    for name in ("port", *_NUMBERS):
        if not re.fullmatch(r"[-0-9,]*", str(given.get(name, ""))):
            raise _unreadable(f": its {name} is not a number")
    ours = {"client_encoding": "UTF8", "options": f"{given.get('options') or ''} {_OPTIONS}"}
    return make_conninfo("", **{**PARAMETERS_DEFAULT, **given, **ours})


def hosts_of(conninfo: str) -> list[Host]:
    """Return the hosts of a connection string, each with its own address and port.

    A single port is used for all hosts
    (https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-MULTIPLE-HOSTS).

    Raises:
        UsageError: the lists of hosts, addresses and ports have different lengths.

    """
    given = conninfo_to_dict(conninfo)
    lists = {
        key: str(given[key]).split(",") for key in ("host", "hostaddr", "port") if given.get(key)
    }
    many = max((len(lists[key]) for key in ("host", "hostaddr") if key in lists), default=1)
    if len(lists.get("port", "")) == 1:
        lists["port"] *= many
    if any(len(values) != many for values in lists.values()):
        raise UsageError("The database's URL must have one port, or as many ports as hosts")
    hosts = []
    for number in range(many):
        parameters = {key: values[number] for key, values in lists.items()}
        name = parameters.get("host") or parameters.get("hostaddr") or ""
        hosts.append(Host(f"{name}:{parameters.get('port') or '5432'}", parameters))
    return hosts


def _unknown_parameter(url: str) -> str:
    """Return what is wrong with a parameter of a URL; empty if none is unknown."""
    query = url.partition("?")[2]
    if "@" in query or "password" in query:  # a part of it may be one of a password
        return ""
    known = {"ssl", *(default.keyword.decode() for default in Conninfo.get_defaults())}
    for part in query.split("&"):
        name = unquote(part.partition("=")[0])
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f" (did you mean {quoted(near[0])}?)" if near else ""
            return f": its parameter {quoted(name)} is unknown{hint}"
    return ""


def _unreadable(why: str = "") -> UsageError:
    """Return the error. Why quotes no value, because a password may be in a wrong place."""
    return UsageError(
        f"The database's URL cannot be read{why}; it must be postgresql://USER@HOST:PORT/NAME, and"
        " special characters in a password must be percent-encoded"
    )
