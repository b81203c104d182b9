"""The state that a PostgreSQL server reports: its role, its cluster and its standbys."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from psycopg import errors

from plantstore.storage.postgres.faults import MISSING

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
