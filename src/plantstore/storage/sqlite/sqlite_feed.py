"""The feed of changes in a SQLite file.

SQLite has one writer at a time, so the order of the numbers is that of the commits. All changes of
a batch are one statement, as its plants are.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import apsw

from plantstore.feed import Kind, Made
from plantstore.storage.feed_tables import COLUMNS, RECORDS, Execute, FeedTables, before_new_numbers
from plantstore.storage.sqlite.sqlite_pages import from_json, to_json

_NOW: Final = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
_before = partial(before_new_numbers, _NOW, 1000, "(random() & 1048575)", "max")
_GIVE_NUMBERS: Final = f"""
UPDATE feed SET last = {_before(":number")} + :number, kept = kept + :number WHERE days > 0
RETURNING last
"""
_APPEND: Final = """
INSERT INTO changes (number, change, at, id, name, tag)
SELECT ? + key, value->>0, unixepoch(), value->>1, value->>2, value->>3 FROM jsonb_each(?)
"""

# The same for plants that were created, in the trigger of `sqlite_plants`.
RECORD_CREATES: Final = f"""
UPDATE feed SET last = {_before("new.number")} + new.number, kept = kept + new.number
WHERE days > 0;
INSERT INTO changes (number, change, at, id, name, tag)
SELECT last - new.number + 1 + key, {Kind.CREATED:d}, unixepoch(), value->>0, value->>1, value->>2
FROM feed, jsonb_each(new.plants) WHERE days > 0;
"""

FEED: Final = FeedTables(
    begin=_before("1"),
    seconds="unixepoch()",
    greatest="max",
    value=":{}".format,
    array=f"CAST(json_group_array(json_array({COLUMNS})) AS BLOB)",
    parse=partial(from_json, RECORDS),
)

# Number of changes that are trimmed in one transaction while idle. A change may have 16 KiB.
TRIMMED_MAX: Final = 500

# While the store is busy, twice as many changes are trimmed each time that this many were made.
TRIM_CHANGES: Final = 500

# How often a file is looked at for commits, while there are followers.
POLL_SECONDS: Final = 0.01


def executor(connection: apsw.Connection) -> Execute:
    """Return a function that executes statements on a connection."""
    return lambda statement, values: connection.execute(statement, values).fetchall()


def record(connection: apsw.Connection, made: Sequence[Made]) -> None:
    """Append the changes of a transaction, which the caller has begun, unless the feed is off."""
    if made:
        last = connection.execute(_GIVE_NUMBERS, {"number": len(made)}).get
        if last is not None:
            connection.execute(_APPEND, (last - len(made) + 1, to_json(made)))


def waiter(connection: apsw.Connection) -> Callable[[float], bool]:
    """Return a function that waits for a commit of another connection, as `watch_changes` does.

    SQLite compares two numbers in shared memory (https://sqlite.org/pragma.html).
    """
    seen = connection.pragma("data_version")

    def wait(seconds: float) -> bool:
        nonlocal seen
        before, deadline = seen, time.monotonic() + seconds
        while (seen := connection.pragma("data_version")) == before:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    return wait
