"""Which server is the primary, as all connections of a store know it together.

Theory of operation
-------------------
A URL may name several servers, of which a cluster manager promotes one when the primary
fails. The old primary may live on, unfenced: it calls itself read-write, and a connection
to it cannot tell that it is outdated. What tells is the timeline of its log, which each
promotion increments (https://www.postgresql.org/docs/current/continuous-archiving.html).

A thread asks all servers, several times a second, whether they take writes, and on which
timeline. It asks them at once, on connections that it keeps, and waits for none that does not
answer. Once it has heard of a newer timeline, no connection to an older primary is used:
those in use are given up, and each is made again, to the newer one.

Rule 1: nothing is asked of a server unless a look at all servers began less than
    TRUST_SECONDS before.
Rule 2: the first change on a newer timeline waits until TRUST_SECONDS after it was heard of.
    By then, by rule 1, no other store reads from the older primary any more.
Rule 3: of servers that are equal otherwise, the one that was lost last is tried last. Whoever
    loses a server tells the other connections of the store, which are made again, too.

With one server in the URL, or one name for a proxy, the thread only watches its state.
"""

import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final
from weakref import WeakSet

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.observe import Observer, ServerChanged, ignore
from plantstore.storage.postgres_connection import (
    UNREACHABLE,
    Connection,
    Position,
    connect,
    connect_to_ask,
)
from plantstore.storage.postgres_faults import shortened
from plantstore.storage.postgres_url import Server, servers_of

# How long a look waits for more answers once there is one, and how long it is until the next;
# a single server is only watched.
ANSWER_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_OF_ONE: Final = 1.0

# For how long a look at all servers is good.
TRUST_SECONDS: Final = 0.6

# How long whoever needs a look waits for it: longer than servers take that do not answer.
LOOK_SECONDS_MAX: Final = 10.0


class Servers:
    """The servers of a URL, and the connections of a store to them. Any thread may use it.

    Args:
        conninfo: as `parse_url` returns it.
        observe: is told which server is the primary, whenever that changes.
        standbys_min: how many synchronous standbys a commit must stand on.
        monotonic: a clock in seconds that is never set back.

    Raises:
        UsageError: the URL names as many ports as makes no sense.

    """

    def __init__(
        self,
        conninfo: str,
        *,
        observe: Observer = ignore,
        standbys_min: int = 0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = servers_of(conninfo)
        self._observe = observe
        self._standbys_min = standbys_min
        self._monotonic = monotonic
        self._is_closed = False
        # What is known; `_changed` guards it.
        self._changed = threading.Condition()
        self._wanted_at = self._looked_at = -math.inf
        self._positions: dict[Server, Position] = {}
        self._reasons: dict[Server, str] = {}
        self._lost_at: dict[Server, float] = {}
        self._timelines: dict[int | None, int] = {}
        self._heard_at = -math.inf
        self._used: WeakSet[Connection] = WeakSet()
        # What the thread alone uses, but for the connections, which one task at a time has.
        self._asked: dict[Server, Future[Position]] = {}
        self._kept: dict[Server, Connection] = {}
        self._state: ServerChanged | None = None
        self._askers = ThreadPoolExecutor(len(self._servers), thread_name_prefix="asker")
        self._thread = threading.Thread(target=self._watch, name="servers", daemon=True)
        self._thread.start()

    def connect(self, *, is_bounded: bool = True, for_changes: bool = False) -> Connection:
        """Open a connection to the primary.

        Args:
            is_bounded: whether a statement is given up after a time.
            for_changes: whether plants are changed on it.

        Raises:
            StoreUnreachableError: no server can be reached that is known to be the primary.
            StoreUnavailableError: what it is told to do with changes is not safe.

        """
        server = self._servers[0] if len(self._servers) == 1 else self._primary()
        began_at = self._monotonic()
        try:
            connection = connect(
                server,
                is_bounded=is_bounded,
                standbys_min=self._standbys_min,
                for_changes=for_changes,
            )
        except StoreUnavailableError:
            self._lost_at[server] = self._monotonic()
            raise
        connection.made_at = began_at
        with self._changed:
            self._hear_of(connection.position)
            if is_bounded:
                self._used.add(connection)
            is_outdated = self._is_outdated(connection.position)
            wait_seconds = self._heard_at + TRUST_SECONDS - self._monotonic()
        if is_outdated:
            connection.close()
            raise StoreUnreachableError(UNREACHABLE, f"{server.name} is an outdated primary")
        if for_changes and wait_seconds > 0:  # rule 2
            time.sleep(wait_seconds)
        return connection

    def is_current(self, connection: Connection) -> bool:
        """Tell whether a connection may be used: its server is the primary still.

        Raises:
            StoreUnreachableError: that cannot be told.

        """
        if len(self._servers) > 1 and self._monotonic() - self._looked_at > TRUST_SECONDS:
            self._look()  # rule 1
        return (
            not connection.is_given_up
            and self._lost_at.get(connection.server, -math.inf) < connection.made_at
        )

    def lose(self, connection: Connection) -> None:
        """Take note that a connection was lost (rule 3)."""
        self._lost_at[connection.server] = self._monotonic()

    def close(self) -> None:
        """Ask no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            self._askers.shutdown(wait=False, cancel_futures=True)
            for connection in self._kept.values():
                connection.close()

    def _primary(self) -> Server:
        self._look()
        with self._changed:
            primaries = self._primaries()
            reasons = "; ".join(
                self._reasons.get(server, f"{server.name}: is no primary now")
                for server in self._servers
            )
        if not primaries:
            raise StoreUnreachableError(UNREACHABLE, shortened(reasons))
        return primaries[0]

    def _primaries(self) -> list[Server]:
        """Return those that take writes and are not outdated, the one to be tried first first."""
        found = [
            server
            for server, position in self._positions.items()
            if position.is_primary and not self._is_outdated(position)
        ]
        return sorted(found, key=lambda server: self._lost_at.get(server, -math.inf))

    def _look(self) -> None:
        """Return when a look is done that began after this was called."""
        now = self._monotonic()
        with self._changed:
            self._wanted_at = max(self._wanted_at, now)
            self._changed.notify_all()
            if not self._changed.wait_for(
                lambda: self._looked_at >= now or self._is_closed, LOOK_SECONDS_MAX
            ):
                raise StoreUnreachableError(UNREACHABLE, "its servers do not answer")

    # What the thread does.

    def _watch(self) -> None:
        pause_seconds = PAUSE_SECONDS if len(self._servers) > 1 else PAUSE_SECONDS_OF_ONE
        while not self._is_closed:
            began_at = self._monotonic()
            self._ask_all()
            with self._changed:
                self._looked_at = began_at
                self._changed.notify_all()
            self._tell()
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_closed or self._wanted_at > self._looked_at, pause_seconds
                )

    def _ask_all(self) -> None:
        with self._changed:
            if self._is_closed:
                return
            for server in self._servers:
                if server not in self._asked:
                    self._asked[server] = self._askers.submit(self._ask, server)
        wait(self._asked.values(), return_when=FIRST_COMPLETED)
        wait(self._asked.values(), ANSWER_SECONDS)
        with self._changed:
            self._positions = {}
            self._reasons = {server: f"{server.name}: no answer" for server in self._servers}
            for server, asked in list(self._asked.items()):
                if asked.done() and not asked.cancelled():
                    del self._asked[server]
                    self._take(server, asked)

    def _take(self, server: Server, asked: Future[Position]) -> None:
        error = asked.exception()
        if error is None:
            del self._reasons[server]
            self._positions[server] = asked.result()
            self._hear_of(asked.result())
        else:
            self._reasons[server] = (
                error.reason if isinstance(error, StoreUnavailableError) else repr(error)
            )

    def _ask(self, server: Server) -> Position:
        with self._changed:
            connection = self._kept.pop(server, None)
        if connection is None:
            connection = connect_to_ask(server)
        position = connection.ask_position()
        with self._changed:
            if self._is_closed:
                connection.close()
            else:
                self._kept[server] = connection
        return position

    def _tell(self) -> None:
        """Tell which server is the primary, if that or its state changed."""
        with self._changed:
            primaries = self._primaries()
            if not primaries:
                return
            position = self._positions[primaries[0]]
        state = ServerChanged(primaries[0].name, position.timeline or None, position.standbys)
        if state != self._state:
            self._state = state
            self._observe(state)

    def _hear_of(self, position: Position) -> None:
        known = self._timelines.get(position.system, 0)
        if not position.is_primary or position.timeline <= known:
            return
        self._timelines[position.system] = position.timeline
        if known:
            self._heard_at = self._monotonic()
            for connection in self._used:
                if self._is_outdated(connection.position):
                    connection.give_up()

    def _is_outdated(self, position: Position) -> bool:
        return position.timeline < self._timelines.get(position.system, 0)
