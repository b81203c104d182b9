"""Finds the primary server, for all connections of a store.

Theory of operation
-------------------
A URL may name several servers. A cluster manager promotes one of them when the primary fails.
The old primary may keep running, and a connection to it cannot tell that it is outdated. Only
its timeline shows that (`plantstore.storage.postgres.cluster`).

A thread checks all servers several times a second: whether they accept writes, and which
timeline they have. A thread that needs a newer result makes a check itself. A check probes the
servers in parallel, on connections that are kept, and does not wait for a server that does not
respond. When it finds a newer timeline, it abandons all connections to older primaries, and their
users connect to the new primary.

Rule 1: a statement is sent to a server only if the last check of all servers began less than
    TRUST_SECONDS ago.
Rule 2: the first change on a newer timeline waits until TRUST_SECONDS after the timeline was
    found. After that time, by rule 1, no other store reads from the older primary.
Rule 3: among equal servers, the first one in the URL is used, and one that failed is tried
    last. If a connection breaks while it is used, the other connections to the same server are
    replaced, too.
Rule 4: a server of another cluster is never used.

If the URL names only one server, which may be a proxy, the thread only watches its state.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Final
from weakref import WeakSet

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.observe import Observer, ServerChanged, ignore
from plantstore.storage.postgres.cluster import Cluster, ServerState
from plantstore.storage.postgres.connection import (
    UNREACHABLE,
    Connection,
    connect,
    connect_for_probe,
)
from plantstore.storage.postgres.faults import shortened
from plantstore.storage.postgres.url import Server, servers_of

# How long to wait for the results of a round of probes.
ANSWER_SECONDS: Final = 0.2

# How long a server is not probed after it could not be reached, or refused the probe.
REFUSED_SECONDS: Final = 1.0


class Probes:
    """Probes the servers of a URL, on connections that it keeps.

    One thread at a time calls `run`. Any thread may call the other methods.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._running: dict[Server, Future[ServerState | str]] = {}
        self._again_at: dict[Server, float] = {}
        # The probe of a server has a thread of its own, and takes the connection from here.
        self._lock = threading.Lock()
        self._idle: dict[Server, Connection] = {}
        self._is_closed = False

    def run(self, began_at: float) -> dict[Server, ServerState | str]:
        """Probe the servers, and return the results that have arrived after ANSWER_SECONDS.

        A probe without a result continues. A later call returns its result, and does not wait
        for it.

        Args:
            began_at: the time, by a clock that never goes back.

        Returns:
            The state of each server, or why it is not known. A server that refused its last probe
            a moment ago is left out.

        """
        wait(
            [
                self._start(server)
                for server in self._servers
                if server not in self._running and self._again_at.get(server, began_at) <= began_at
            ],
            ANSWER_SECONDS,
        )
        return {
            server: self._result(server, probe, began_at)
            for server, probe in list(self._running.items())
        }

    def all_have_answered(self) -> bool:
        """Return whether each server has answered a probe, or refused one, at least once."""
        return all(server in self._again_at for server in self._servers)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._is_closed = True
            for connection in self._idle.values():
                connection.close()

    def _start(self, server: Server) -> Future[ServerState | str]:
        probe: Future[ServerState | str] = Future()

        def run() -> None:
            try:
                probe.set_result(self._probe(server))
            except StoreUnavailableError as error:
                probe.set_result(error.reason)
            except Exception as error:  # noqa: BLE001 (memory may have run out)
                probe.set_result(repr(error))

        # Not an executor: the program would wait for its threads at the exit.
        threading.Thread(target=run, name="probe", daemon=True).start()
        self._running[server] = probe  # after the start, which may fail
        return probe

    def _result(
        self, server: Server, probe: Future[ServerState | str], began_at: float
    ) -> ServerState | str:
        if not probe.done():
            return f"{server.name}: no answer"
        del self._running[server]
        result = probe.result()
        self._again_at[server] = began_at + (REFUSED_SECONDS if isinstance(result, str) else 0)
        return result

    def _probe(self, server: Server) -> ServerState:
        with self._lock:
            connection = self._idle.pop(server, None)
        if connection is None:
            connection = connect_for_probe(server, is_single=len(self._servers) == 1)
        state = connection.probe_state()
        with self._lock:
            if self._is_closed:
                connection.close()
            else:
                self._idle[server] = connection
        return state


# The pause between two checks, and for a single server.
PAUSE_SECONDS: Final = 0.2
PAUSE_SECONDS_SINGLE: Final = 1.0

# How long the result of a check may be used.
TRUST_SECONDS: Final = 0.6

# The pause before a connect checks again for a primary, and how long it does that.
_RETRY_SECONDS: Final = 0.05
_CONNECT_SECONDS_MAX: Final = 10.0


class Servers:
    """The servers of a URL, and the store's connections to them. Any thread may use it.

    Args:
        conninfo: as `parse_url` returns it.
        observe: is called when the primary or its state changes.
        standbys_min: minimum number of synchronous standbys that a commit must wait for.
        monotonic: a clock in seconds that never goes back.
        sleep: waits for a number of seconds before the first change on a newer timeline (rule 2).

    Raises:
        UsageError: the numbers of hosts and ports in the URL do not match.

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
        # Shared by all threads. `_lock` guards it.
        self._lock = threading.Lock()
        self._cluster = Cluster(self._servers)
        self._used: WeakSet[Connection] = WeakSet()
        # Whoever checks the servers holds `_check_lock`: the thread of this object, or one that
        # needs a check at once.
        self._check_lock = threading.Lock()
        self._checked_at = -math.inf  # when the last check that ended had begun
        self._probes = Probes(self._servers)
        self._reported = ServerChanged(None, None, 0)
        self._closed = threading.Event()
        threading.Thread(target=self._check_at_intervals, name="servers", daemon=True).start()

    def connect(self, *, has_timeout: bool = True, for_writes: bool = False) -> Connection:
        """Open a connection to the primary.

        Args:
            has_timeout: whether statements have a time limit.
            for_writes: whether the connection is used for changes of plants.

        Raises:
            StoreUnreachableError: no primary can be reached.
            StoreUnavailableError: the settings of the server are not safe.

        """
        server = self._servers[0] if len(self._servers) == 1 else self._primary()
        began_at = self._monotonic()
        try:
            connection = connect(
                server,
                has_timeout=has_timeout,
                standbys_min=self._standbys_min,
                for_writes=for_writes,
            )
        except StoreUnavailableError:
            with self._lock:
                self._cluster.fail(server, self._monotonic())
            raise
        connection.made_at = began_at
        with self._lock:
            self._cluster.adopt(connection.server_state)
            self._learn(connection.server_state)
            if has_timeout:
                self._used.add(connection)
            fault = self._cluster.fault_of(connection.server_state)
            wait_seconds = TRUST_SECONDS - self._cluster.seconds_since_promotion(self._monotonic())
        if fault is not None:
            connection.close()
            raise StoreUnreachableError(UNREACHABLE, f"{server.name}: {fault}")
        if for_writes and wait_seconds > 0:  # rule 2
            self._sleep(wait_seconds)
        return connection

    def is_current(self, connection: Connection) -> bool:
        """Return whether a connection still leads to the primary.

        Raises:
            StoreUnreachableError: this is unknown.

        """
        if len(self._servers) > 1 and self._monotonic() - self._checked_at > TRUST_SECONDS:
            self._check_now()  # rule 1
        return not connection.is_abandoned and not self._cluster.is_lost_since(
            connection.server, connection.made_at
        )

    def lose(self, connection: Connection) -> None:
        """Record that a connection broke (rule 3)."""
        with self._lock:
            self._cluster.lose(connection.server, self._monotonic())

    def close(self) -> None:
        """Stop the checks."""
        self._closed.set()
        self._probes.close()

    def _primary(self) -> Server:
        deadline = self._monotonic() + _CONNECT_SECONDS_MAX
        while True:
            self._check_now()
            with self._lock:
                if primary := self._cluster.primary():
                    return primary[0]
                reasons = self._cluster.explain()
            # Right after the start, a distant server may not have answered yet.
            is_over = self._closed.is_set() or self._monotonic() > deadline
            if is_over or self._probes.all_have_answered():
                raise StoreUnreachableError(UNREACHABLE, shortened(reasons))
            time.sleep(_RETRY_SECONDS)

    def _learn(self, state: ServerState) -> None:
        """Learn a timeline, and abandon connections to older primaries; with `_lock` held."""
        if self._cluster.learn(state, self._monotonic()):
            for connection in self._used:
                if self._cluster.fault_of(connection.server_state) is not None:
                    connection.abandon()

    def _check_at_intervals(self) -> None:
        pause_seconds = PAUSE_SECONDS_SINGLE if len(self._servers) == 1 else PAUSE_SECONDS
        while not self._closed.is_set():
            with contextlib.suppress(Exception), self._check_lock:  # it does not count
                self._check()
            self._closed.wait(pause_seconds)

    def _check_now(self) -> None:
        """Check the servers, unless another thread begins a check after this call.

        Raises:
            StoreUnreachableError: the check failed, and does not count.

        """
        now = self._monotonic()
        with self._check_lock:
            if self._checked_at < now:
                try:
                    self._check()
                except (MemoryError, RuntimeError) as error:  # no thread could be started
                    raise StoreUnreachableError(UNREACHABLE, repr(error)) from error

    # From here on, `_check_lock` is held.

    def _check(self) -> None:
        began_at = self._monotonic()
        answers = self._probes.run(began_at)
        with self._lock:
            self._cluster.answers |= answers
            for answer in answers.values():
                if isinstance(answer, ServerState):
                    self._learn(answer)
        self._checked_at = began_at
        with contextlib.suppress(Exception):  # the observer may raise anything
            self._report()

    def _report(self) -> None:
        """Report the primary to the observer, if the primary or its state changed."""
        with self._lock:
            primary = self._cluster.primary()
        event = ServerChanged(None, None, 0)
        if primary is not None:
            server, state = primary
            event = ServerChanged(server.name, state.timeline or None, state.standbys)
        if event != self._reported:
            self._reported = event
            self._observe(event)
