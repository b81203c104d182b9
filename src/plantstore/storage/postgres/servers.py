"""Which server is the primary, as all connections of a store know it together.

Theory of operation
-------------------
A URL may name several servers, of which a cluster manager promotes one when the primary
fails. The old primary may live on, unfenced: it calls itself read-write, and a connection
to it cannot tell that it is outdated. What tells is the timeline of its log, which each
promotion increments (https://www.postgresql.org/docs/current/continuous-archiving.html).

A thread checks all servers, several times a second: whether they take writes, and on which
timeline. It asks them at once, on connections that it keeps, and waits for none that does not
answer. Once it has learned of a newer timeline, no connection to an older primary is used:
those in use are given up, and each is made again, to the newer one.

Rule 1: no statement is sent to a server unless a check of all servers began less than
    TRUST_SECONDS before.
Rule 2: the first change on a newer timeline waits until TRUST_SECONDS after it was learned
    of. By then, by rule 1, no other store reads from the older primary any more.
Rule 3: of servers that are equal otherwise, the first one in the URL is used, and one that
    failed is tried last. A connection that broke in use makes the others to its server be
    made again, too.
Rule 4: a server of another cluster is never used.

With one server in the URL, or one name for a proxy, the thread only watches its state.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Final
from weakref import WeakSet

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.observe import Observer, ServerChanged, ignore
from plantstore.storage.postgres.connection import (
    UNREACHABLE,
    Connection,
    Position,
    connect,
    connect_to_ask,
)
from plantstore.storage.postgres.faults import shortened
from plantstore.storage.postgres.url import Server, servers_of

# How long a look waits for answers, and how long after its begin the next one begins; a single
# server is only watched.
ANSWER_SECONDS: Final = 0.2
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_OF_ONE: Final = 1.0

# For how long a look at all servers is good.
TRUST_SECONDS: Final = 0.6

# How long a connect waits before it looks again for a primary, and how long the thread waits
# after a look that failed, out of memory say, before the next one.
_AGAIN_SECONDS: Final = 0.05

# How long a server is not asked that could not be reached, or refused to be asked.
REFUSED_SECONDS: Final = 1.0

# How long whoever needs a look waits for it: longer than servers take that do not answer.
LOOK_SECONDS_MAX: Final = 10.0


class Servers:
    """The servers of a URL, and the connections of a store to them. Any thread may use it.

    Args:
        conninfo: as `parse_url` returns it.
        observe: is told which server is the primary, whenever that changes.
        standbys_min: how many synchronous standbys a commit must stand on.
        monotonic: a clock in seconds that is never set back.
        sleep: waits so many seconds before the first change on a newer timeline (rule 2).

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
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._servers = servers_of(conninfo)
        self._observe = observe
        self._standbys_min = standbys_min
        self._monotonic = monotonic
        self._sleep = sleep
        self._is_closed = False
        # What is known; `_changed` guards it.
        self._changed = threading.Condition()
        self._wanted_at = self._looked_at = -math.inf
        self._positions: dict[Server, Position] = {}
        self._reasons: dict[Server, str] = {}
        self._failed_at: dict[Server, float] = {}
        self._lost_at: dict[Server, float] = {}
        self._system: int | None = None
        self._timeline = 0
        self._heard_at = -math.inf
        self._used: WeakSet[Connection] = WeakSet()
        self._kept: dict[Server, Connection] = {}
        # What only the thread uses.
        self._asked: dict[Server, Future[Position]] = {}
        self._ask_again_at: dict[Server, float] = {}
        self._state: ServerChanged | None = None
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
            self._failed_at[server] = self._monotonic()
            raise
        connection.made_at = began_at
        with self._changed:
            if self._system is None:
                self._system = connection.position.system
            self._hear_of(connection.position)
            if is_bounded:
                self._used.add(connection)
            fault = self._fault_of(connection.position)
            wait_seconds = self._heard_at + TRUST_SECONDS - self._monotonic()
        if fault is not None:
            connection.close()
            raise StoreUnreachableError(UNREACHABLE, f"{server.name}: {fault}")
        if for_changes and wait_seconds > 0:  # rule 2
            self._sleep(wait_seconds)
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
        now = self._monotonic()
        self._lost_at[connection.server] = self._failed_at[connection.server] = now

    def close(self) -> None:
        """Ask no more."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            for connection in self._kept.values():
                connection.close()

    def _primary(self) -> Server:
        deadline = self._monotonic() + LOOK_SECONDS_MAX
        while True:
            self._look()
            with self._changed:
                if primaries := self._primaries():
                    return primaries[0]
                reasons = "; ".join(
                    self._reasons.get(server, f"{server.name}: is no primary now")
                    for server in self._servers
                )
                # At the start, a server that is far away has not answered yet.
                is_known = all(server in self._ask_again_at for server in self._servers)
            if is_known or self._is_closed or self._monotonic() > deadline:
                raise StoreUnreachableError(UNREACHABLE, shortened(reasons))
            time.sleep(_AGAIN_SECONDS)

    def _primaries(self) -> list[Server]:
        """Return those that take writes and are not outdated, the one to be tried first first."""
        found = [
            server
            for server in self._servers
            if server in self._positions
            and self._positions[server].is_primary
            and self._fault_of(self._positions[server]) is None
        ]
        return sorted(found, key=lambda server: self._failed_at.get(server, -math.inf))

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
            try:
                self._ask_all(began_at)
            except Exception:  # noqa: BLE001 (it may be out of memory; the next look counts)
                time.sleep(_AGAIN_SECONDS)
            with contextlib.suppress(Exception):  # an observer's
                self._tell()
            with self._changed:
                self._changed.wait_for(
                    lambda: self._is_closed or self._wanted_at > self._looked_at,
                    began_at + pause_seconds - self._monotonic(),
                )

    def _ask_all(self, began_at: float) -> None:
        asked = [
            self._begin_to_ask(server)
            for server in self._servers
            if server not in self._asked and self._ask_again_at.get(server, began_at) <= began_at
        ]
        wait(asked, ANSWER_SECONDS)  # not for one that has not answered the look before either
        with self._changed:
            self._positions = {}
            for server, answer in list(self._asked.items()):
                if answer.done():
                    del self._asked[server]
                    self._take(server, answer, began_at)
                else:
                    self._reasons[server] = f"{server.name}: no answer"
            self._looked_at = began_at
            self._changed.notify_all()

    def _begin_to_ask(self, server: Server) -> Future[Position]:
        asked: Future[Position] = Future()

        def ask() -> None:
            try:
                asked.set_result(self._ask(server))
            except Exception as error:  # noqa: BLE001 (it is raised where the answer is taken)
                asked.set_exception(error)

        # No executor: the program would wait for its threads at the exit.
        threading.Thread(target=ask, name="asker", daemon=True).start()
        self._asked[server] = asked  # only now: a thread that did not start never answers
        return asked

    def _take(self, server: Server, asked: Future[Position], began_at: float) -> None:
        error = asked.exception()
        if error is None:
            self._ask_again_at[server] = began_at
            self._reasons.pop(server, None)
            self._positions[server] = asked.result()
            self._hear_of(asked.result())
        else:
            self._ask_again_at[server] = began_at + REFUSED_SECONDS
            self._reasons[server] = (
                error.reason if isinstance(error, StoreUnavailableError) else repr(error)
            )

    def _ask(self, server: Server) -> Position:
        with self._changed:
            connection = self._kept.pop(server, None)
        if connection is None:
            connection = connect_to_ask(server, is_alone=len(self._servers) == 1)
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
            state = ServerChanged(None, None, 0)
            if primaries:
                position = self._positions[primaries[0]]
                timeline = position.timeline or None
                state = ServerChanged(primaries[0].name, timeline, position.standbys)
        if state != self._state and not (self._state is None and state.server is None):
            self._state = state
            self._observe(state)

    def _hear_of(self, position: Position) -> None:
        is_ours = position.system in (None, self._system)
        if not (is_ours and position.is_primary and position.timeline > self._timeline):
            return
        if self._timeline:
            self._heard_at = self._monotonic()
        self._timeline = position.timeline
        for connection in self._used:
            if self._fault_of(connection.position) is not None:
                connection.give_up()

    def _fault_of(self, position: Position) -> str | None:
        """Return why a primary must not be used."""
        if None not in (self._system, position.system) and position.system != self._system:
            return "belongs to another cluster"
        if position.timeline < self._timeline:
            return "is an outdated primary"
        return None
