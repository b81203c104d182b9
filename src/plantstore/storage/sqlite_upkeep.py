"""What keeps a file of SQLite trustworthy: a look at whether it is whole, and a copy of it."""

import contextlib
from collections.abc import Callable
from typing import Final

import apsw

from plantstore.storage.migrate import migrations
from plantstore.storage.sqlite_file import connect
from plantstore.store import Condition

# Pages copied between two reports of progress: 16 MiB, a fraction of a second.
STEP_PAGES: Final = 4096

# What SQLite keeps for itself (sqlite_sequence, say) is not of our making.
_SELECT_SCHEMA: Final = (
    "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)


def check(path: str) -> Condition:
    """Look whether pages, indexes, constraints and schema are as they must be."""
    with contextlib.closing(connect(path)) as connection:
        connection.execute("BEGIN")  # all of it as of one moment
        problems: list[str] = []
        try:
            found = connection.execute("PRAGMA integrity_check")
            problems += (line for (line,) in found if line != "ok")
        except apsw.CorruptError as error:
            problems.append(str(error))
        steps = migrations("sqlite")
        expected, actual = _schema_after(steps), dict(connection.execute(_SELECT_SCHEMA))
        problems += (
            f"{name} is not as the schema has it"
            for name in sorted(expected.keys() | actual.keys())
            if expected.get(name) != actual.get(name)
        )
        plants = _count(connection, "plants", problems)
        tokens = _count(connection, "tokens", problems)
    return Condition(len(steps), plants, tokens, problems)


def back_up(path: str, copy: str, progress: Callable[[int, int], None]) -> None:
    """Copy a file, as it is at one moment, while others go on writing it.

    The snapshot is held for as long as it takes: SQLite would begin again at each
    change that another connection makes, and under load never come to an end.

    Args:
        path: the file of ours.
        copy: where the copy goes; what is there is lost.
        progress: is told the pages copied, and the pages in all.

    """
    with (
        contextlib.closing(connect(path)) as source,
        contextlib.closing(apsw.Connection(copy)) as target,
    ):
        source.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
        with target.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(STEP_PAGES)
                progress(backup.page_count - backup.remaining, backup.page_count)


def _schema_after(steps: list[str]) -> dict[str, str]:
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        for step in steps:
            connection.execute(step)
        return dict(connection.execute(_SELECT_SCHEMA))


def _count(connection: apsw.Connection, table: str, problems: list[str]) -> int:
    try:
        count: int = connection.execute(f"SELECT count(*) FROM {table}").get
    except (apsw.CorruptError, apsw.SQLError) as error:
        problems.append(f"{table} cannot be counted: {error}")
        return 0
    return count
