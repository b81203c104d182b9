"""Probes of several servers at the same time."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Final

from plantstore.storage.postgres.connect import connect_for_probe
from plantstore.storage.postgres.connection import Connection  # noqa: TC001 (other modules import it too)
from plantstore.storage.postgres.server_state import ServerState
from plantstore.storage.postgres.url import Server

# How long to wait for the results of a round of probes.
ANSWER_SECONDS: Final = 0.2

# How long a server is not probed after it could not be reached, or refused the probe.
REFUSED_SECONDS: Final = 1.0


class Probes:
    """Probes the servers of a URL, on connections that it keeps.

    One thread calls `run`. Any thread may call the other methods.
    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._running: dict[Server, Future[ServerState]] = {}
        self._again_at: dict[Server, float] = {}
        # The probe of a server has a thread of its own, and takes the connection from here.
        self._lock = threading.Lock()
        self._idle: dict[Server, Connection] = {}
        self._is_closed = False

    def run(self, began_at: float) -> Mapping[Server, ServerState | BaseException | None]:
        """Probe the servers, and return the results that have arrived after ANSWER_SECONDS.

        A probe without a result continues. A later call returns its result, and does not wait
        for it.

        Args:
            began_at: the time, by a clock that never goes back.

        Returns:
            The state of each server, the error of its probe, or None if there is no result yet.
            A server that refused its last probe a moment ago is left out.

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

    def _start(self, server: Server) -> Future[ServerState]:
        probe: Future[ServerState] = Future()

        def run() -> None:
            try:
                probe.set_result(self._probe(server))
            except Exception as error:  # noqa: BLE001 (`_result` returns it)
                probe.set_exception(error)

        # Not an executor: the program would wait for its threads at the exit.
        threading.Thread(target=run, name="probe", daemon=True).start()
        self._running[server] = probe  # after the start, which may fail
        return probe

    def _result(
        self, server: Server, probe: Future[ServerState], began_at: float
    ) -> ServerState | BaseException | None:
        if not probe.done():
            return None
        del self._running[server]
        error = probe.exception()
        self._again_at[server] = began_at if error is None else began_at + REFUSED_SECONDS
        return probe.result() if error is None else error

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
