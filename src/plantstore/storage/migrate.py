"""Schema migrations: numbered SQL files in one folder per engine. There are no downgrades.

The number of a file is the version of the schema after it. The first one makes the schema of
version 1.0.0.

Each migration runs in one transaction together with the record that it was applied. A lock
keeps other processes from migrating at the same time. So many processes may start at once,
and a process that dies leaves a complete schema behind.

A new store gets all migrations in one transaction, so that no process sees a part of its schema.

An index that the program itself maintains is filled afterwards, in many transactions. Each of
them records how far it came. So a large database needs little memory, and a process that dies
loses little work.

Each transaction that writes also reads the version of the schema, and is rolled back if it is not
the one that this program knows. So a process of an older version that still runs writes nothing
after a migration. The write lock of SQLite, or a lock on the table of versions in PostgreSQL,
orders each such transaction before or after the migration.
"""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import Enum
from importlib import resources
from typing import Final, Protocol

from plantstore.errors import NothingDoneError, SchemaOutdatedError, StoreUnavailableError
from plantstore.observe import (
    DatabaseCreated,
    Migrated,
    MigrationStarted,
    Observer,
    PlantsIndexed,
    ignore,
)

# Interval between two reports of how many plants are indexed.
REPORT_SECONDS: Final = 5.0


class SchemaPolicy(Enum):
    """What to do about the schema when a store is opened.

    Every policy refuses a schema of a newer version, and one from before version 1.0.0.
    """

    MIGRATE = "migrate"
    """Create the store if there is none. Apply missing migrations, and complete the index."""

    CREATE = "create"
    """Create the store if there is none. Require a schema that is up to date."""

    COMPLETE = "complete"
    """Require a store whose schema is up to date. Complete its index."""

    REQUIRE = "require"
    """Require a store whose schema is up to date."""

    ACCEPT = "accept"
    """Require a store. Leave its schema as it is."""

    @property
    def may_create(self) -> bool:
        """Whether a missing store is created."""
        return self in (SchemaPolicy.MIGRATE, SchemaPolicy.CREATE)


class Schema(Protocol):
    """The schema of one database."""

    engine: str
    """The name of the folder with the engine's migrations."""

    database: str
    """The name of the database in messages."""

    place: str
    """Where the database is: an absolute path, or a URL without its password."""

    def version(self) -> int:
        """Return the number of the last migration that was applied; 0 if the database is empty.

        Raises:
            StoreUnavailableError: the database belongs to another program.

        """
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Run the block in a transaction. No other process can migrate at the same time."""
        ...

    def apply(self, step: str, version: int) -> None:
        """Run the SQL of one migration, and record the new version."""
        ...

    def is_complete(self) -> bool:
        """Return whether the index of words has all plants. The schema is up to date."""
        ...

    def index(self) -> Iterator[int]:
        """Index the words of all plants, in transactions of many; yield how many plants each has.

        What an earlier call indexed is skipped, or read and left as it is.
        """
        ...

    def count_plants(self) -> int:
        """Return the number of plants, in constant time."""
        ...


@functools.cache
def migrations(engine: str) -> Mapping[int, str]:
    """Return the SQL of all migrations of an engine by the versions that they make, in order."""
    folder = resources.files(f"plantstore.storage.{engine}") / "migrations"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    sql = [file for file in files if file.name.endswith(".sql")]
    return {int(file.name.partition("_")[0]): file.read_text(encoding="utf-8") for file in sql}


@functools.cache
def newest_version(engine: str) -> int:
    """Return the version of the schema that this program knows."""
    return max(migrations(engine))


def prepare(
    schema: Schema,
    policy: SchemaPolicy,
    observe: Observer = ignore,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Check the schema of a database that is being opened; create or migrate it by the policy.

    Raises:
        StoreUnavailableError: the policy refuses the schema, it is of a version that this program
            does not know, or the database belongs to another program. Nothing was changed.

    """
    newest = newest_version(schema.engine)
    version = known_version(schema)
    if version == 0:
        if not policy.may_create:
            raise StoreUnavailableError(
                f"The database {schema.database} is empty; run `plantstore migrate`, or name"
                " another database"
            )
        version = _create(schema, observe)
    if policy is SchemaPolicy.ACCEPT:
        return
    started_at = monotonic()
    is_old = version < newest
    if is_old:
        if policy is not SchemaPolicy.MIGRATE:
            raise SchemaOutdatedError(
                f"{schema.database} has schema {version}, but {newest} is needed."
                " Run: plantstore migrate"
            )
        _migrate(schema, version, observe)
    if policy in (SchemaPolicy.MIGRATE, SchemaPolicy.COMPLETE) and not schema.is_complete():
        _index(schema, observe, monotonic)
    if is_old:
        observe(Migrated(newest, monotonic() - started_at))


def _create(schema: Schema, observe: Observer) -> int:
    with schema.locked():
        # Another process may have created the schema before this one got the lock.
        version = known_version(schema)
        if version:
            return version
        for version, step in migrations(schema.engine).items():
            schema.apply(step, version)
    observe(DatabaseCreated(schema.place))
    return version


def _migrate(schema: Schema, version: int, observe: Observer) -> None:
    newest = newest_version(schema.engine)
    observe(MigrationStarted(version, newest))
    while version < newest:
        with schema.locked():
            # Another process may have migrated before this one got the lock.
            version = known_version(schema)
            if version < newest:
                schema.apply(migrations(schema.engine)[version + 1], version + 1)


def _index(schema: Schema, observe: Observer, monotonic: Callable[[], float]) -> None:
    total = schema.count_plants()
    plants = 0
    reported_at = monotonic()
    observe(PlantsIndexed(plants, total))
    while not schema.is_complete():
        for indexed in schema.index():
            plants += indexed
            if (now := monotonic()) - reported_at >= REPORT_SECONDS:
                reported_at = now
                observe(PlantsIndexed(plants, total))


def known_version(schema: Schema) -> int:
    """Return the version of a schema; 0 if the database is empty.

    Raises:
        StoreUnavailableError: it is older than version 1.0.0 or of a newer version, or the
            database belongs to another program.

    """
    version = schema.version()
    if 0 < version < min(migrations(schema.engine)):
        raise StoreUnavailableError(
            f"The database {schema.database} is older than version 1.0.0, and cannot be migrated"
        )
    newest = newest_version(schema.engine)
    if version > newest:
        raise StoreUnavailableError(
            f"The database {schema.database} was written by a newer Plant Store (its schema has"
            f" version {version}, and this one supports {newest}); install the newer version"
        )
    return version


def require_same(engine: str, version: int | None) -> None:
    """Raise an error unless the schema has the version that this program knows.

    Args:
        engine: of the database.
        version: as the transaction sees it that is about to write; None if there is none.

    Raises:
        NothingDoneError: the schema has another version.

    """
    newest = newest_version(engine)
    if version != newest:
        raise NothingDoneError(
            "The database cannot be written: its schema is of another version of the Plant Store",
            f"the schema has version {version}, and this process knows version {newest}; restart"
            " this process with the installed version",
        )
