"""The URL of a database, and the connections of a store to its primary.

Theory of operation
-------------------
A URL may name several servers. For each new connection libpq tries one after the other, and takes
the first one that accepts writes (`target_session_attrs=read-write`). So nothing looks for a
primary while all connections work. After a failover, they break, time out or become read-only.
Three rules make that fast, and let reads continue:

Rule 1: a server that failed is tried last.
Rule 2: if a connection breaks while it is used, or its results cannot be trusted, all other
    connections to the same server are replaced before their next use.
Rule 3: if the servers that can be reached take no writes, and one of them is no standby, a store
    reads from it. Such a connection is used once, so that a server that takes writes is found.

By these rules a store also leaves an old primary that nobody has stopped: its commits wait for a
standby that follows the new primary, and are rejected. Until then, the store may read from it.
"""

import contextlib
import math
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from plantstore.errors import NothingDoneError, StoreUnavailableError, UsageError, shorten
from plantstore.observe import Observer, ServerChanged, ignore
from plantstore.storage.postgres.session import (
    GRACE_SECONDS,
    READ_ONLY,
    REASON_CHARACTERS_MAX,
    UNREACHABLE,
    Connection,
    open_connection,
    translate_errors,
)

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


# The pause after a failed attempt to connect. In it, each use that needs a connection fails at
# once. So no requests queue for a server that is down.
RETRY_SECONDS: Final = 0.25

# A connection that was used this recently is not checked before it is used again. The check
# would release the interpreter lock, and another thread may keep the lock for milliseconds.
FRESH_SECONDS: Final = 1.0


class Primary:
    """Opens connections to the primary, keeps them, and replaces them. Any thread may use it.

    Raises:
        UsageError: the URL is malformed.

    """

    def __init__(
        self,
        url: str,
        *,
        observe: Observer = ignore,
        standbys_min: int = 0,
        grace_seconds: float = GRACE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._conninfo = parse_url(url)
        self._observe = observe
        self._standbys_min = standbys_min
        self._grace_seconds = grace_seconds
        self._monotonic = monotonic
        # The lock guards the attributes below it.
        self._lock = threading.Lock()
        self._hosts = hosts_of(self._conninfo)  # in the order in which they are tried
        self._lost_at: dict[str, float] = {}
        self._reported = ServerChanged(None, 0)
        self._is_closed = False
        # By whether the connections are for changes:
        self._idle: dict[bool, list[Connection]] = {False: [], True: []}
        self._refusals: dict[bool, tuple[float, StoreUnavailableError]] = {}

    @contextlib.contextmanager
    def using(self, what: str, *, for_writes: bool = False) -> Iterator[Connection]:
        """Give an idle connection to the block, or a new one.

        There are as many connections as blocks that ran at once. Afterwards they are kept.

        Args:
            what: the message of an error that the block raises.
            for_writes: whether the block changes plants.

        Raises:
            NothingDoneError: there is no connection, and nothing was sent.
            StoreUnavailableError: the server caused an error in the block, or its results
                cannot be trusted. This replaces an error that the block raised.

        """
        connection = self._take(for_writes=for_writes)
        try:
            with translate_errors(what):
                try:
                    yield connection
                finally:
                    if not connection.closed:  # an error may be an outdated result, too
                        connection.check()
            connection.used_at = self._monotonic()
        except StoreUnavailableError as error:
            error.reason = shorten(f"{connection.server}: {error.reason}", REASON_CHARACTERS_MAX)
            raise
        finally:
            self._put_back(connection, for_writes=for_writes)

    def connect(self, *, has_timeout: bool = True, for_writes: bool = False) -> Connection:
        """Open a connection to the primary, which the caller closes.

        Without `for_writes`, it may be a primary that takes no writes (Rule 3).

        Args:
            has_timeout: whether statements have a time limit.
            for_writes: whether to refuse a server with too few standbys.

        Raises:
            NothingDoneError: no primary can be reached, or it has too few standbys.
            StoreUnavailableError: the settings of the server are not safe.

        """
        made_at = self._monotonic()
        with self._lock:
            parts = [host.parameters for host in self._hosts]
        lists = {key: ",".join(part[key] for part in parts) for key in parts[0]}
        try:
            connection = open_connection(make_conninfo(self._conninfo, **lists))
        except NothingDoneError as error:
            self._tell(ServerChanged(None, 0))
            if for_writes or error.message != READ_ONLY:
                raise
            primary = {**lists, "target_session_attrs": "primary"}
            connection = open_connection(make_conninfo(self._conninfo, **primary))
            connection.takes_writes = False
        connection.made_at, connection.standbys_min = made_at, self._standbys_min
        connection.grace_seconds = self._grace_seconds
        try:
            connection.configure(has_timeout=has_timeout)
            if connection.takes_writes:
                self._tell(ServerChanged(connection.server, connection.standbys))
            if for_writes:
                connection.refuse_too_few()
        except BaseException:
            connection.close()
            with self._lock:
                self._try_last(connection.server)
            raise
        return connection

    def is_current(self, connection: Connection) -> bool:
        """Return whether no connection to the same server was lost since this one was opened."""
        return connection.made_at > self._lost_at.get(connection.server, -math.inf)

    def report(self, connection: Connection) -> None:
        """Report the server of a connection if the number of its standbys has changed."""
        self._tell(ServerChanged(connection.server, connection.count_standbys()))

    def close(self) -> None:
        """Close the connections. Each use fails from now on."""
        with self._lock:
            self._is_closed = True
            for connection in (*self._idle[False], *self._idle[True]):
                connection.close()

    def _take(self, *, for_writes: bool) -> Connection:
        while True:
            with self._lock:
                if self._is_closed:
                    raise NothingDoneError("The store is closed")
                idle = self._idle[for_writes]
                connection = idle.pop() if idle else None
                refused_until, refusal = self._refusals.get(for_writes, (-math.inf, None))
            if connection is None:
                break
            if self._is_usable(connection):
                return connection
            connection.close()
        if refusal is not None and self._monotonic() < refused_until:
            raise _unreachable(refusal)
        try:
            return self.connect(for_writes=for_writes)
        except StoreUnavailableError as error:
            with self._lock:
                self._refusals[for_writes] = (self._monotonic() + RETRY_SECONDS, error)
            raise _unreachable(error) from error

    def _is_usable(self, connection: Connection) -> bool:
        if not self.is_current(connection):
            return False
        return self._monotonic() - connection.used_at < FRESH_SECONDS or connection.is_open()

    def _put_back(self, connection: Connection, *, for_writes: bool) -> None:
        with self._lock:
            if connection.closed:
                self._try_last(connection.server)
                self._lost_at[connection.server] = self._monotonic()
            elif self._is_closed or not connection.takes_writes:
                connection.close()
            else:
                self._idle[for_writes].append(connection)

    def _try_last(self, server: str) -> None:
        """Move a server to the end; with the lock held."""
        self._hosts.sort(key=lambda host: host.name == server)

    def _tell(self, event: ServerChanged) -> None:
        with self._lock:
            if event == self._reported:
                return
            self._reported = event
            with contextlib.suppress(Exception):  # the observer may raise anything
                self._observe(event)


def _unreachable(error: StoreUnavailableError) -> NothingDoneError:
    """Return a new error for a use that got no connection."""
    if isinstance(error, NothingDoneError):
        return NothingDoneError(error.message, error.reason)
    return NothingDoneError(UNREACHABLE, error.reason or error.message)


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
        raise _unreadable() from None
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


def _unreadable(why: str = "") -> UsageError:
    """Return the error. Why quotes no value, because a password may be in a wrong place."""
    return UsageError(
        f"The database's URL cannot be read{why}; it must be postgresql://USER@HOST:PORT/NAME, with"
        " no parameters but those of libpq, and special characters in a password must be"
        " percent-encoded"
    )
