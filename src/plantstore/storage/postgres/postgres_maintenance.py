"""The maintenance of a PostgreSQL database: its schema, the rights of roles, check and reindex.

To index or reindex, the plants are compared page by page. Those with other words or none get theirs
while their rows are locked. So changes of other plants never wait, and a search finds all other
plants.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import errors, sql

from plantstore.errors import OperationError, StoreUnavailableError, quoted
from plantstore.storage.migrate import known_version, migrations, newest_version
from plantstore.storage.postgres.postgres_pages import find_other_words, index_words
from plantstore.storage.postgres.postgres_plants import COUNT
from plantstore.storage.postgres.session import (
    ENGINE,
    Connection,
    fenced,
    lacking,
)
from plantstore.store import CheckReport, Remedy

# The key of the advisory lock that a process holds while it migrates.
LOCK: Final = int.from_bytes(b"plst")

# This reads the catalog itself. A session's cache of it (to_regclass) may be older than its wait
# for the lock.
_COUNT_RECORD_TABLES: Final = """
SELECT count(*) FROM pg_class WHERE relname = 'plantstore_migrations' AND pg_table_is_visible(oid)
"""

_VERSION: Final = "SELECT coalesce(max(version), 0) FROM plantstore_migrations"

# The columns and indexes of our tables. Objects that the operator has added are left out.
_SELECT_SCHEMA: Final = """
WITH ours AS (
    SELECT oid, relname FROM pg_class WHERE relname = ANY(%s) AND relnamespace = (
        SELECT relnamespace FROM pg_class WHERE oid = to_regclass('plantstore_migrations')
    )
)
SELECT relname || '.' || attname, format_type(atttypid, atttypmod) || attnotnull
FROM pg_attribute JOIN ours ON ours.oid = attrelid WHERE attnum > 0 AND NOT attisdropped
UNION ALL
SELECT pg_class.relname,
    indisvalid || regexp_replace(pg_get_indexdef(indexrelid), ' ON .* USING ', ' USING ')
FROM pg_index JOIN ours ON ours.oid = indrelid JOIN pg_class ON pg_class.oid = indexrelid
"""

_TOTAL: Final = "SELECT coalesce(sum(plants), 0)::bigint FROM totals"

_IS_INCOMPLETE: Final = "SELECT EXISTS (SELECT FROM plants WHERE name_key IS NULL)"

# The server has to read a text to count its characters.
_READ_ALL: Final = {
    "plants": "SELECT count(*), sum(length(name)), sum(length(tag)) FROM plants",
    "tokens": "SELECT count(*), sum(length(name)), sum(length(digest)) FROM tokens",
}


class PostgresSchema:
    """The schema of a database. A table in it lists the migrations that were applied."""

    engine = ENGINE

    def __init__(self, connection: Connection, database: str) -> None:
        self.database = self.place = database
        self._connection = connection

    def version(self) -> int:
        with self._waiting_for_a_migration():
            if not _one(self._connection, _COUNT_RECORD_TABLES):
                return 0
            return _one(self._connection, _VERSION)

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self._connection.transaction():
            with self._waiting_for_a_migration():
                self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            yield

    @contextmanager
    def _waiting_for_a_migration(self) -> Iterator[None]:
        """Let the block wait for locks without a limit: another process may take any time."""
        [[timeout]] = self._connection.execute("SELECT current_setting('lock_timeout')")
        self._connection.execute("SET lock_timeout = 0")
        yield  # after an error, the connection is not used again
        self._connection.execute("SELECT set_config('lock_timeout', %s, false)", (timeout,))

    def apply(self, step: str, version: int) -> None:
        if version > min(migrations(ENGINE)):  # the first one makes the table
            self._connection.execute("LOCK TABLE plantstore_migrations IN ACCESS EXCLUSIVE MODE")
        try:
            self._connection.execute(step.encode())
        except (errors.DuplicateObject, errors.DuplicateTable) as error:
            raise StoreUnavailableError(
                f"The database {self.database} is another program's:"
                f" {error.diag.message_primary}; name another database with --database"
            ) from error
        self._connection.execute(
            "INSERT INTO plantstore_migrations (version) VALUES (%s)", (version,)
        )

    def is_complete(self) -> bool:
        return not _one(self._connection, _IS_INCOMPLETE)

    def index(self) -> Iterator[int]:
        return index_words(self._connection)

    def count_plants(self) -> int:
        return count_plants(self._connection)


def count_plants(connection: Connection) -> int:
    """Return the recorded number of plants."""
    return _one(connection, _TOTAL)


def check(connection: Connection, database: str) -> CheckReport:
    """Check the schema, and that everything stored can be read.

    This does not compare indexes with their tables. The program pg_amcheck does that.
    """
    version = known_version(PostgresSchema(connection, database))
    expected, actual = _expected_schema(connection, version), _schema(connection)
    problems = [
        f"{name} differs from the schema"
        for name in sorted(expected)
        if expected[name] != actual.get(name)
    ]
    counts = dict.fromkeys(_READ_ALL, 0)
    for table, query in _READ_ALL.items():
        try:
            with connection.transaction():
                [[counts[table], *_]] = connection.execute(query)
        except psycopg.ProgrammingError as error:  # a table or a column is missing
            problems.append(f"{table} cannot be read: {error.diag.message_primary}")
    remedy = None
    if not problems:
        problems = _differences(connection, version, counts["plants"])
        remedy = Remedy.REINDEX if problems else None
    return CheckReport(version, counts["plants"], counts["tokens"], problems, remedy)


def _differences(connection: Connection, version: int, plants: int) -> list[str]:
    problems = []
    total = count_plants(connection)
    if total != plants:
        problems.append(f"the recorded number of plants is {total}")
    if version < newest_version(ENGINE):
        return problems  # the words of an older version may be others
    if _one(connection, _IS_INCOMPLETE):
        problems.append("the index of words is not complete")
    elif ids := find_other_words(connection):
        problems.append(
            f"the words of plant {ids[0]} are not those of its name; searches may be wrong"
        )
    return problems


def _expected_schema(connection: Connection, version: int) -> dict[str, str]:
    """Return the expected schema: run the migrations in a temporary schema, and roll back."""
    with connection.transaction(force_rollback=True):
        connection.execute("SET LOCAL search_path = pg_temp")
        for each, step in migrations(ENGINE).items():
            if each <= version:
                connection.execute(step.encode())
        return _schema(connection)


def _schema(connection: Connection) -> dict[str, str]:
    return dict(connection.execute(_SELECT_SCHEMA, (list(RIGHTS),)))


def _one(connection: Connection, query: str) -> int:
    """Return the integer, or truth value, that a query finds."""
    value: int
    [[value]] = connection.execute(query)
    return value


# All tables, and the rights of a role. It also needs USAGE on the schema. No table has a sequence.
RIGHTS: Final = {
    "plants": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "tokens": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "handed_out_ids": ("SELECT", "INSERT", "UPDATE"),
    "totals": ("SELECT", "INSERT", "UPDATE"),
    "changes": ("SELECT", "INSERT", "DELETE"),
    "feed": ("SELECT", "UPDATE"),
    "change_sets": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    "plantstore_markers": ("SELECT", "INSERT", "UPDATE"),
    "plantstore_migrations": ("SELECT",),
}

# Without USAGE on the schema, the role has no table.
_MISSING_RIGHTS: Final = """
SELECT given.name, given.right_ FROM unnest(%s::text[], %s::text[]) AS given (name, right_)
WHERE has_table_privilege(coalesce(%s, current_user), to_regclass(given.name), given.right_)
    IS NOT TRUE
"""

_SCHEMA: Final = """
SELECT nspname FROM pg_namespace JOIN pg_class ON relnamespace = pg_namespace.oid
WHERE pg_class.oid = to_regclass('plantstore_migrations')
"""


def require_rights(connection: Connection, what: str, role: str | None = None) -> None:
    """Raise StoreUnavailableError if a role lacks a right.

    Args:
        connection: to the database.
        what: the beginning of the message.
        role: None for the role of the connection.

    """
    tables, rights = zip(
        *((table, right) for table, rights in RIGHTS.items() for right in rights), strict=True
    )
    missing = connection.execute(_MISSING_RIGHTS, (list(tables), list(rights), role)).fetchall()
    if missing:
        named = ", ".join(f"{right} on {table}" for table, right in missing)
        raise lacking(what, f"the role lacks {named}")


def require_role(connection: Connection, role: str) -> None:
    """Raise OperationError if there is no such role."""
    known = "SELECT FROM pg_roles WHERE rolname = %s"
    if not role.isprintable() or not connection.execute(known, (role,)).fetchall():
        raise OperationError(f"There is no role {quoted(role)}; create it first, with CREATE ROLE")


def grant(connection: Connection, role: str) -> None:
    """Give a role all rights, on the tables of the newest schema.

    Raises:
        StoreUnavailableError: the role of the connection may not grant them.

    """
    with connection.transaction():
        [[schema]] = connection.execute(_SCHEMA)
        names = {"schema": sql.Identifier(schema), "role": sql.Identifier(role)}
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA {schema} TO {role}").format(**names))
        for table, rights in RIGHTS.items():
            statement = f"GRANT {', '.join(rights)} ON {table} TO {{role}}"
            connection.execute(sql.SQL(statement).format(**names))
        # PostgreSQL only warns if a role that is not the owner grants.
        query = "SELECT has_schema_privilege(%s, %s, 'USAGE')"
        [[has_usage]] = connection.execute(query, (role, schema))
        if not has_usage:
            raise lacking(f"The rights cannot be granted to {role}", f"USAGE on schema {schema}")
        require_rights(connection, f"The rights cannot be granted to {role}", role)


# One statement, and so one snapshot: the number of plants, and by how much the total is too low.
_COMPARE_TOTAL: Final = f"SELECT count(*), count(*) - ({_TOTAL}) FROM plants"


def reindex(connection: Connection, slot: int, progress: Callable[[int, int], None]) -> None:
    """Correct the number of plants, and the words of those plants that have others or none.

    Args:
        connection: without a time limit for statements.
        slot: of the row of `totals` to correct.
        progress: is called with the number of plants compared, and the number of all plants.

    """
    [(plants, missing)] = connection.execute(_COMPARE_TOTAL)
    if missing:
        with fenced(connection):
            connection.execute(COUNT, (slot, missing))
        connection.require_standbys()
    done = 0
    for compared in index_words(connection):
        connection.require_standbys()
        done += compared
        progress(done, max(plants, done))
