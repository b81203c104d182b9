"""The schema of a SQLite file, its check, and its backup."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from plantstore.errors import OperationError
from plantstore.storage.migrate import known_version, migrations, newest_version
from plantstore.storage.sqlite.checksums import (
    VERSION_BEFORE_CHECKSUMS,
    describe_damage,
    describe_others,
)
from plantstore.storage.sqlite.file import (
    APPLICATION_ID,
    ENGINE,
    require_application,
    transaction,
)
from plantstore.storage.sqlite.sqlite_pages import count_plants
from plantstore.storage.sqlite.word_index import has_differences, index_next, is_complete
from plantstore.store import CheckReport, Remedy

# Pages to copy between two calls of `progress`: 16 MiB, which takes a fraction of a second.
STEP_PAGES: Final = 8192

# SQLite's own tables (sqlite_sequence, for example) are left out.
_SELECT_SCHEMA: Final = (
    "SELECT name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)

_SELECT_BAD_TEXT: Final = """
SELECT min(id) FROM plants
WHERE NOT is_text(CAST(name AS BLOB)) OR NOT is_text(CAST(tag AS BLOB))
"""

_COUNT_BAD_TOKENS: Final = """
SELECT count(*) FROM tokens
WHERE NOT is_text(CAST(name AS BLOB)) OR NOT is_text(CAST(scopes AS BLOB))
"""

# The errors of a backup that the source causes, and not the copy.
_SOURCE_ERRORS: Final = (apsw.SQLITE_IOERR_READ, apsw.SQLITE_IOERR_SHORT_READ)


class SQLiteSchema:
    """The schema of a file. The file's header holds its version."""

    engine = ENGINE

    def __init__(self, connection: apsw.Connection, name: str) -> None:
        self.database = name
        self.place = connection.filename
        self._connection = connection

    def version(self) -> int:
        # The order matters: another process may migrate between two of these statements.
        objects = self._connection.execute("SELECT count(*) FROM sqlite_schema").get
        application_id: int = self._connection.pragma("application_id")
        version: int = self._connection.pragma("user_version")
        require_application(objects == 0, application_id, self.database)
        return version

    def locked(self) -> AbstractContextManager[None]:
        return transaction(self._connection, of_any_version=True)

    def apply(self, step: str, version: int) -> None:
        self._connection.execute(step)
        self._connection.pragma("application_id", APPLICATION_ID)
        self._connection.pragma("user_version", version)

    def is_complete(self) -> bool:
        return is_complete(self._connection)

    def index(self) -> Iterator[int]:
        return iter(self._index_next, 0)

    def _index_next(self) -> int:
        with transaction(self._connection):
            return index_next(self._connection)

    def count_plants(self) -> int:
        return count_plants(self._connection)


def check(connection: apsw.Connection, name: str) -> CheckReport:
    """Check pages, indexes, constraints, schema, texts and checksums, all of one snapshot.

    Args:
        connection: to the database; it may be read-only.
        name: of the database in messages.

    """
    notes: list[str] = []
    damage = _integrity_problems(connection)
    # FTS5 reports only problems of the index of words, and `reindex` makes this index again.
    differences = [line for line in damage if "fts5" in line.lower()]
    damage = [line for line in damage if line not in differences]
    version = known_version(SQLiteSchema(connection, name))
    expected = _schema_of(version)
    actual = dict(connection.execute(_SELECT_SCHEMA))
    problems = [
        f"{object_} differs from the schema"
        for object_ in sorted(expected)
        if expected[object_] != actual.get(object_)
    ]
    if others := sorted(actual.keys() - expected.keys()):
        notes.append(f"other programs have created {', '.join(others)}")
    plants, tokens = (
        _try(connection, f"SELECT count(*) FROM {table}", damage) for table in ("plants", "tokens")
    )
    connection.create_scalar_function("is_text", _is_text, 1, deterministic=True)
    bad = _try(connection, _SELECT_BAD_TEXT, damage)
    if bad is not None:
        problems.append(
            f"the name or tag of plant {bad} is not valid UTF-8, or contains U+0000; other plants"
            " may have the same problem"
        )
    if many := _try(connection, _COUNT_BAD_TOKENS, damage):
        problems.append(
            f"the name or scopes of {many} tokens are not valid UTF-8, or contain U+0000"
        )
    if version > VERSION_BEFORE_CHECKSUMS:
        _compare_checksums(connection, damage, notes)
    total = _try(connection, "SELECT plants FROM totals", damage)
    if total != plants:
        differences.append(f"the recorded number of plants is {total}")
    if version == newest_version(ENGINE):  # the words of an older version may be others
        _compare_words(connection, damage, differences)
    remedy = Remedy.RESTORE if damage else Remedy.REINDEX if differences else None
    problems = [*damage, *problems, *differences]
    return CheckReport(version, plants or 0, tokens or 0, problems, remedy, tuple(notes))


def _compare_checksums(connection: apsw.Connection, damage: list[str], notes: list[str]) -> None:
    try:
        damage += filter(None, [describe_damage(connection)])
        notes += filter(None, [describe_others(connection)])
    except (apsw.CorruptError, apsw.SQLError, msgspec.DecodeError) as error:
        damage.append(f"the checksums cannot be compared: {error}")


def _compare_words(connection: apsw.Connection, damage: list[str], differences: list[str]) -> None:
    try:
        if not is_complete(connection):
            differences.append("the index of words is not complete")
        elif has_differences(connection):
            differences.append(
                "the index of words differs from the names and tags; searches may be wrong"
            )
    except (apsw.CorruptError, apsw.SQLError) as error:
        is_of_fts5 = getattr(error, "extendedresult", None) == apsw.SQLITE_CORRUPT_VTAB
        (differences if is_of_fts5 else damage).append(
            f"the index of words cannot be read: {error}"
        )


def _integrity_problems(connection: apsw.Connection) -> list[str]:
    """Return the lines of SQLite's own check. One value may have several, after a heading."""
    try:
        found = connection.execute("PRAGMA integrity_check").fetchall()
    except (apsw.CorruptError, apsw.SQLError) as error:
        return [str(error)]
    lines = [line for (text,) in found for line in str(text).splitlines()]
    return [line for line in lines if line != "ok" and not line.startswith("***")]


def copy_pages(
    source: apsw.Connection,
    copy: str,
    progress: Callable[[int, int], None],
    step_pages: int,
) -> None:
    """Copy a database while other processes write to it.

    Args:
        source: a connection with an open snapshot. Without one, SQLite would start the copy
            again after each change of another process, and never finish under load.
        copy: the path of the copy. Its content is overwritten.
        progress: is called with the number of pages copied, and the number of all pages.
        step_pages: number of pages that are copied between two calls of `progress`.

    Raises:
        OperationError: the copy cannot be written.

    """
    try:
        with contextlib.closing(apsw.Connection(copy)) as target:
            backup = target.backup("main", source, "main")
            try:
                while not backup.done:
                    backup.step(step_pages)
                    progress(backup.page_count - backup.remaining, backup.page_count)
            finally:
                # After a failed step, this raises the error again, with its message.
                backup.finish()
    except apsw.FullError as error:
        raise OperationError(
            f"The backup cannot be written: the disk of {Path(copy).parent} is full; free some"
            " space, or name a file on another disk"
        ) from error
    except (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError) as error:
        if getattr(error, "extendedresult", None) in _SOURCE_ERRORS:
            raise
        raise OperationError(
            f"The backup cannot be written to {Path(copy).parent}: {error}; name a file in another"
            " folder"
        ) from error


def _is_text(*values: Any) -> bool:  # noqa: ANN401 (bytes or None; apsw has no such type)
    """Return whether a value is NULL, or UTF-8 without U+0000."""
    [value] = values
    try:
        return value is None or "\0" not in value.decode()
    except UnicodeDecodeError:
        return False


def _schema_of(version: int) -> dict[str, str]:
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        for each, step in migrations(ENGINE).items():
            if each <= version:
                connection.execute(step)
        return dict(connection.execute(_SELECT_SCHEMA))


def _try(connection: apsw.Connection, query: str, problems: list[str]) -> int | None:
    """Return the result of a query. If the file is too damaged, add a problem, return None."""
    try:
        found: int | None = connection.execute(query).get
    except (apsw.CorruptError, apsw.SQLError) as error:
        problems.append(f"{' '.join(query.split())} fails: {error}")
        return None
    return found
