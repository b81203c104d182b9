"""The feed of changes in a SQLite file.

SQLite has one writer at a time, so the order of the numbers is that of the commits. All changes of
a batch are one statement, as its plants are.
"""

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import apsw

from plantstore.feed import Kind, Made
from plantstore.storage.feed_tables import (
    ADD_TO_SET,
    Execute,
    FeedTables,
    add_to_sets,
    before_new_numbers,
)
from plantstore.storage.sqlite.sqlite_pages import from_json, to_json

_NOW: Final = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
_before = partial(before_new_numbers, _NOW, 1000, "(random() & 1048575)", "max")
_GIVE_NUMBERS: Final = f"""
UPDATE feed SET last = {_before(":number")} + :number, kept = kept + :number WHERE days > 0
RETURNING last
"""
_ADD_TO_SETS: Final = add_to_sets("""(
    SELECT :first + key AS number, value->>4 AS set_name FROM jsonb_each(:made)
) WHERE set_name IS NOT NULL""")
_APPEND: Final = """
INSERT INTO changes (number, change, at, id, name, tag, set_number, name_before, tag_before)
SELECT :first + key, value->>0, unixepoch(), value->>1, value->>2, value->>3,
    (SELECT first_number FROM change_sets WHERE change_sets.name = value->>4),
    value->>5, value->>6 FROM jsonb_each(:made)
"""

# The same for plants that were created, in the trigger of `sqlite_plants`. `set_name` is the set of
# all of them, or NULL.
RECORD_CREATES: Final = f"""
UPDATE feed SET last = {_before("new.number")} + new.number, kept = kept + new.number
WHERE days > 0;
INSERT INTO change_sets (first_number, last_number, name, changes, closed)
SELECT last - new.number + 1, last, new.set_name, new.number, false
FROM feed WHERE days > 0 AND new.set_name IS NOT NULL
{ADD_TO_SET};
INSERT INTO changes (number, change, at, id, name, tag, set_number)
SELECT last - new.number + 1 + key, {Kind.CREATED:d}, unixepoch(), value->>0, value->>1, value->>2,
    (SELECT first_number FROM change_sets WHERE change_sets.name = new.set_name)
FROM feed, jsonb_each(new.plants) WHERE days > 0;
"""

FEED: Final = FeedTables(
    begin=_before("1"),
    seconds="unixepoch()",
    greatest="max",
    value=":{}".format,
    array="CAST(json_group_array(json_array({})) AS BLOB)".format,
    elements="json_each({})".format,
    parse=from_json,
)

# Number of changes that are trimmed in one transaction while idle. One in a set may have 32 KiB.
TRIMMED_MAX: Final = 250

# While the store is busy, twice as many changes are trimmed each time that this many were made.
TRIM_CHANGES: Final = 500

# How often a file is looked at for commits of other processes, while there are followers. Those of
# this process wake them at once.
POLL_SECONDS: Final = 0.25


def executor(connection: apsw.Connection) -> Execute:
    """Return a function that executes statements on a connection."""
    return lambda statement, values: connection.execute(statement, values).fetchall()


def record(connection: apsw.Connection, made: Sequence[Made]) -> None:
    """Append the changes of a transaction, which the caller has begun, unless the feed is off."""
    if made:
        last = connection.execute(_GIVE_NUMBERS, {"number": len(made)}).get
        if last is None:
            return
        first = last - len(made) + 1
        values = {"first": first, "made": to_json(made)}
        if any(each[4] for each in made):
            connection.execute(_ADD_TO_SETS, values)
        connection.execute(_APPEND, values)


def waiter(connection: apsw.Connection, committed: threading.Event) -> Callable[[float], bool]:
    """Return a function that waits for a commit of another connection, as `watch_changes` does.

    SQLite compares two numbers in shared memory (https://sqlite.org/pragma.html).

    Args:
        connection: for the one thread that waits.
        committed: is set after commits of this process.

    """
    seen = connection.pragma("data_version")

    def wait(seconds: float) -> bool:
        nonlocal seen
        before, deadline = seen, time.monotonic() + seconds
        while (seen := connection.pragma("data_version")) == before:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            committed.wait(min(left, POLL_SECONDS))
            committed.clear()
        return True

    return wait
