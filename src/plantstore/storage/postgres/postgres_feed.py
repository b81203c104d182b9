"""The feed of changes in a PostgreSQL database.

A transaction that makes changes updates the one row of `feed`, after all its other locks. So it
holds the lock of this row until its commit is visible, and the next transaction gets its numbers
after that. Numbers are visible in their order, and a reader that has one has seen all before it.
A transaction locks change sets only while it holds this lock, or as its only lock. So there are no
deadlocks.

A set may be closed between a decision and the record of its changes. The statement that records
them then fails, and the batch is decided again.

The transaction also sends a notification, which PostgreSQL delivers after the commit. For its queue
PostgreSQL has such a lock, too: commits with notifications never overlap.

After a crash of the primary, or a wait for a standby that was cancelled, changes are visible that
no standby has. A failover would lose them. So a read writes a marker and waits until the
synchronous standbys have it, and with it all that was read.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

import msgspec
import psycopg
from psycopg import errors

from plantstore.feed import Made
from plantstore.storage.feed_tables import FeedTables, add_to_sets, before_new_numbers
from plantstore.storage.postgres.session import Connection

_NOW: Final = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_RANDOM: Final = "floor(random() * 1048576)::bigint"
_before = partial(before_new_numbers, _NOW, 0, _RANDOM, "greatest")
_SECONDS: Final = "floor(extract(epoch FROM clock_timestamp()))::bigint"

# The channel of the notifications.
_CHANNEL: Final = "plantstore_changes"

# The part of a statement that gives numbers to the rows of `made`, unless the feed is off.
# RETURNING is evaluated for the updated row, and so sends the notification.
_NUMBERED: Final = f"""
numbered AS (
    UPDATE feed SET last = {_before("number")} + number, kept = kept + number
    FROM (SELECT count(*) AS number FROM made) AS counted_changes
    WHERE days > 0 AND number > 0
    RETURNING last - number AS before, pg_notify('{_CHANNEL}', '')
)
"""

# The parts of a statement that append the rows of `made` to the feed.
APPEND: Final = f"""
{_NUMBERED}, appended AS (
    INSERT INTO changes (number, change, at, id, name, tag)
    SELECT before + place, change, {_SECONDS}, id, name, tag FROM made, numbered
)
"""
_MADE_IN_SETS: Final = """(
    SELECT before + place AS number, set_name FROM made, numbered WHERE set_name IS NOT NULL
) AS made_in_sets"""

# The same for rows with the name of a set, or NULL, and with what the plant was before.
APPEND_IN_SETS: Final = f"""
{_NUMBERED}, sets AS (
    {add_to_sets(_MADE_IN_SETS)}
    RETURNING first_number, change_sets.name
), appended AS (
    INSERT INTO changes (number, change, at, id, name, tag, set_number, name_before, tag_before)
    SELECT before + place, change, {_SECONDS}, id, made.name, tag, first_number, name_before,
        tag_before
    FROM numbered, made LEFT JOIN sets ON sets.name = set_name
)
"""
_RECORD: Final = f"""
WITH made AS (
    SELECT * FROM unnest(
        %b::bigint[], %b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[]
    ) WITH ORDINALITY AS given (change, id, name, tag, set_name, name_before, tag_before, place)
), {APPEND_IN_SETS}
SELECT
"""

FEED: Final = FeedTables(
    begin=_before("1"),
    seconds=_SECONDS,
    greatest="greatest",
    value="%({})b".format,
    array="json_agg(json_build_array({}))::text".format,
    elements="json_array_elements_text(({})::json)".format,
    parse=msgspec.json.Decoder.decode,
)

# Number of changes that are trimmed in one transaction while idle. Beside a commit with many
# changes, it is twice their number.
TRIMMED_MAX: Final = 1_000


def record(connection: Connection, made: Sequence[Made]) -> None:
    """Append the changes of a transaction, as its last statement, unless the feed is off."""
    if not made:
        return
    columns = [[*column] for column in zip(*made, strict=True)]
    with closed_meanwhile():
        connection.execute(_RECORD.encode(), columns)


class ChangedMeanwhileError(Exception):
    """Another transaction closed a set of the batch, or took a free id. Nothing was changed."""


@contextlib.contextmanager
def closed_meanwhile() -> Iterator[None]:
    """Raise ChangedMeanwhileError if a statement in the block fails because a set is closed."""
    try:
        yield
    except errors.NotNullViolation as error:
        if error.diag.column_name != "closed":
            raise
        raise ChangedMeanwhileError from error


def waiter(
    connection: Connection, is_current: Callable[[Connection], bool]
) -> Callable[[float], bool]:
    """Return a function that waits for notifications, as `watch_changes` does.

    Args:
        connection: of its own.
        is_current: returns whether the connection leads to the primary.

    """
    connection.execute(f"LISTEN {_CHANNEL}".encode())

    def wait(seconds: float) -> bool:
        if not is_current(connection):
            raise psycopg.OperationalError("the server is not the primary any more")
        return bool(list(connection.notifies(timeout=seconds, stop_after=1)))

    return wait
