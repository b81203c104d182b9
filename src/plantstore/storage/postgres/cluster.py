"""Decides which servers of a URL may be used, by the states that they report. No I/O, no locks.

A cluster manager promotes a standby when the primary fails. The old primary may keep running.
It still says that it accepts writes, and cannot know that it is outdated. The timeline of the
log shows it: each promotion increments the timeline
(https://www.postgresql.org/docs/current/continuous-archiving.html).
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from psycopg import errors

from plantstore.storage.postgres.faults import MISSING
from plantstore.storage.postgres.url import Server

# An SQL expression for the standbys that commits wait for. If the server cannot send its log to
# standbys, commits wait for none, whatever the setting says.
STANDBY_NAMES: Final = """
CASE current_setting('max_wal_senders', true) WHEN '0' THEN ''
ELSE current_setting('synchronous_standby_names', true) END
"""

# The first eight digits of the name of a log file are its timeline.
_TIMELINE: Final = """
CASE WHEN NOT pg_is_in_recovery() THEN
    ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END
"""
_IS_PRIMARY: Final = "NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"

# Queries for the state. If an engine does not support or allow a query, the next one is used.
STATE_QUERIES: Final = (
    f"""
SELECT {_IS_PRIMARY}, system_identifier, {_TIMELINE}, {STANDBY_NAMES} FROM pg_control_system()
""",
    f"SELECT {_IS_PRIMARY}, NULL, {_TIMELINE}, {STANDBY_NAMES}",
    f"SELECT current_setting('transaction_read_only') = 'off', NULL, NULL, {STANDBY_NAMES}",
)

# The errors of engines that do not support or allow a query.
UNSUPPORTED: Final = (*MISSING, errors.ObjectNotInPrerequisiteState, errors.InternalError_)


class ServerState(NamedTuple):
    """The state that a server reports.

    Attributes:
        is_primary: whether the server accepts writes. An outdated primary also says so.
        system: the identifier of its cluster; None if the engine has none.
        timeline: of the log that it writes; 0 for a standby, or if the engine has none.
        standbys: how many synchronous standbys its commits wait for.

    """

    is_primary: bool
    system: int | None
    timeline: int
    standbys: int


def state_of(row: Sequence[Any]) -> ServerState:
    """Return the state in a row of one of STATE_QUERIES."""
    is_primary, system, timeline, names = row
    return ServerState(is_primary, system, timeline or 0, standbys_in(names or ""))


def standbys_in(names: str) -> int:
    """Return how many standbys a commit waits for, by `synchronous_standby_names`.

    https://www.postgresql.org/docs/current/runtime-config-replication.html describes its forms.
    """
    number = re.match(r"\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(", names, re.IGNORECASE)
    return int(number[1]) if number else int(bool(names.strip()))


class Cluster:
    """The servers of a URL. All times are in seconds, by a clock that never goes back.

    Args:
        servers: in the order of the URL.

    Attributes:
        answers: the state of each server that answered the last check, and why each of the others
            did not answer.

    """

    def __init__(self, servers: Sequence[Server]) -> None:
        self.answers: dict[Server, ServerState | str] = {}
        self._servers = servers
        self._failed_at: dict[Server, float] = {}
        self._lost_at: dict[Server, float] = {}
        self._system: int | None = None
        self._timeline = 0
        self._promoted_at = -math.inf

    def adopt(self, state: ServerState) -> None:
        """Make the cluster of this server the one to use, if none is known yet."""
        if self._system is None:
            self._system = state.system

    def learn(self, state: ServerState, now: float) -> bool:
        """Record a server's timeline; return whether it is newer than all before."""
        is_ours = state.system in (None, self._system)
        if not (is_ours and state.is_primary and state.timeline > self._timeline):
            return False
        if self._timeline:
            self._promoted_at = now
        self._timeline = state.timeline
        return True

    def seconds_since_promotion(self, now: float) -> float:
        """Return how long ago a newer timeline was found; infinity if only one was seen."""
        return now - self._promoted_at

    def primary(self) -> tuple[Server, ServerState] | None:
        """Return the first server of the URL that accepts writes and is not outdated.

        Servers that failed come last.
        """
        found = [
            (server, state)
            for server in self._servers
            if isinstance(state := self.answers.get(server), ServerState)
            and state.is_primary
            and self.fault_of(state) is None
        ]
        return min(found, key=lambda each: self._failed_at.get(each[0], -math.inf), default=None)

    def fault_of(self, state: ServerState) -> str | None:
        """Return why a primary must not be used, or None."""
        if None not in (self._system, state.system) and state.system != self._system:
            return "belongs to another cluster"
        if state.timeline < self._timeline:
            return "is an outdated primary"
        return None

    def explain(self) -> str:
        """Return why there is no primary."""
        answers = ((server, self.answers.get(server)) for server in self._servers)
        return "; ".join(
            answer if isinstance(answer, str) else f"{server.name}: is no primary now"
            for server, answer in answers
        )

    def fail(self, server: Server, now: float) -> None:
        """Record that no connection to a server could be opened."""
        self._failed_at[server] = now

    def lose(self, server: Server, now: float) -> None:
        """Record that a connection to a server broke."""
        self._lost_at[server] = self._failed_at[server] = now

    def is_lost_since(self, server: Server, then: float) -> bool:
        """Return whether a connection to the server broke at that time or later."""
        return self._lost_at.get(server, -math.inf) >= then
