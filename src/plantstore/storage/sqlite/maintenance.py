"""What keeps a file of SQLite trustworthy: a look at whether it is whole, and a copy of it."""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import apsw

from plantstore.storage.migrate import known_version, migrations
from plantstore.storage.sqlite.file import SQLiteSchema
from plantstore.store import Condition

# Pages copied between two reports of progress: 16 MiB, a fraction of a second.
STEP_PAGES: Final = 4096

# What SQLite keeps for itself (sqlite_sequence, say) is not of our making.
_SELECT_SCHEMA: Final = (
    "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)


_SELECT_BAD_TEXT: Final = """
SELECT min(id) FROM plants
WHERE NOT is_text(CAST(name AS BLOB)) OR NOT is_text(CAST(tag AS BLOB))
"""


def check(connection: apsw.Connection, path: str) -> Condition:
    """Look whether pages, indexes, constraints, schema and texts are as they must be."""
    problems: list[str] = []
    try:
        found = connection.execute("PRAGMA integrity_check")
        problems += (line for (line,) in found if line != "ok")
    except apsw.CorruptError as error:
        problems.append(str(error))
    version = known_version(SQLiteSchema(connection, path))
    expected = _schema_after(migrations("sqlite")[:version])
    actual = dict(connection.execute(_SELECT_SCHEMA))
    problems += (
        f"{name} is not as the schema has it"
        for name in sorted(expected.keys() | actual.keys())
        if expected.get(name) != actual.get(name)
    )
    plants, tokens = (
        _try(connection, f"SELECT count(*) FROM {table}", problems)
        for table in ("plants", "tokens")
    )
    connection.create_scalar_function("is_text", _is_text, 1, deterministic=True)
    bad = _try(connection, _SELECT_BAD_TEXT, problems)
    if bad is not None:
        problems.append(f"the plant {bad}, maybe others: its name or tag is no storable text")
    return Condition(version, plants or 0, tokens or 0, problems)


def back_up(
    source: apsw.Connection,
    copy: str,
    progress: Callable[[int, int], None],
    step_pages: int = STEP_PAGES,
) -> None:
    """Copy a file while others go on writing it.

    Args:
        source: a connection with a snapshot. Without one, SQLite would begin again
            at each change that another makes, and under load never come to an end.
        copy: where the copy goes; what is there is lost.
        progress: is told the pages copied, and the pages in all.
        step_pages: how many pages are copied between two reports of progress.

    """
    with (
        contextlib.closing(apsw.Connection(copy)) as target,
        target.backup("main", source, "main") as backup,
    ):
        while not backup.done:
            backup.step(step_pages)
            progress(backup.page_count - backup.remaining, backup.page_count)


def _is_text(*values: Any) -> bool:  # noqa: ANN401 (bytes or None, which apsw's types do not say)
    """Tell whether the bytes of a text, if there is one, are UTF-8 without U+0000."""
    [value] = values
    try:
        return value is None or "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _schema_after(steps: list[str]) -> dict[str, str]:
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        for step in steps:
            connection.execute(step)
        return dict(connection.execute(_SELECT_SCHEMA))


def _try(connection: apsw.Connection, query: str, problems: list[str]) -> int | None:
    """Return what a query finds; if the file is too broken for it, say so."""
    try:
        found: int | None = connection.execute(query).get
    except (apsw.CorruptError, apsw.SQLError) as error:
        problems.append(f"{query} fails: {error}")
        return None
    return found
