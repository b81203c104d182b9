"""Schema migrations: numbered SQL files in one folder per engine. There are no downgrades.

Each migration runs in one transaction together with the record that it was applied. A lock
keeps other processes from migrating at the same time. So many processes may start at once,
and a process that dies leaves a complete schema behind.
"""

from contextlib import AbstractContextManager
from enum import Enum
from importlib import resources
from typing import Protocol, Self

from plantstore.errors import StoreUnavailableError


class SchemaPolicy(Enum):
    """What to do about the schema when a store is opened.

    Every policy refuses a schema of a newer version.
    """

    MIGRATE = "migrate"
    """Create the store if there is none. Apply missing migrations."""

    UPDATE = "update"
    """Require a store. Apply missing migrations."""

    REQUIRE = "require"
    """Require a store whose schema is up to date."""

    ACCEPT = "accept"
    """Require a store. Leave its schema as it is."""

    @classmethod
    def of(cls, *, migrate: bool, may_create: bool = True) -> Self:
        """Return the policy for a command that writes, by its option `--migrate`."""
        if not migrate:
            return cls.REQUIRE
        return cls.MIGRATE if may_create else cls.UPDATE


class Schema(Protocol):
    """The schema of one database."""

    engine: str
    """The name of the folder with the engine's migrations."""

    database: str
    """The name of the database in messages."""

    def version(self) -> int:
        """Return how many migrations were applied; 0 if the database is empty.

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


def migrations(engine: str) -> list[str]:
    """Return the SQL of all migrations of an engine, in order."""
    folder = resources.files(f"plantstore.storage.{engine}") / "migrations"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sql")]


def prepare(schema: Schema, policy: SchemaPolicy) -> None:
    """Check the schema of a database that is being opened; apply migrations if the policy says so.

    Raises:
        StoreUnavailableError: the policy refuses the schema, it is of a newer version, or
            the database belongs to another program. Nothing was changed.

    """
    steps = migrations(schema.engine)
    version = known_version(schema)
    if version == 0 and policy is not SchemaPolicy.MIGRATE:
        raise StoreUnavailableError(
            f"The database {schema.database} is empty; run `plantstore migrate`, or name another"
            " database"
        )
    if policy is SchemaPolicy.REQUIRE and version < len(steps):
        raise StoreUnavailableError(
            f"The database {schema.database} is out of date: its schema has version {version}, and"
            f" this Plant Store needs {len(steps)}; run `plantstore migrate`"
        )
    if policy not in (SchemaPolicy.MIGRATE, SchemaPolicy.UPDATE):
        return
    while version < len(steps):
        with schema.locked():
            # Another process may have migrated before this one got the lock.
            version = known_version(schema)
            if version < len(steps):
                schema.apply(steps[version], version + 1)


def known_version(schema: Schema) -> int:
    """Return the version of a schema.

    Raises:
        StoreUnavailableError: it is of a newer version, or the database belongs to another
            program.

    """
    version = schema.version()
    insist_on_known(schema.engine, version, schema.database)
    return version


def insist_on_known(engine: str, version: int, database: str) -> None:
    """Raise StoreUnavailableError if a schema is newer than all migrations in this program."""
    newest = len(migrations(engine))
    if version > newest:
        raise StoreUnavailableError(
            f"The database {database} was written by a newer Plant Store (its schema has version"
            f" {version}, and this one supports {newest}); install the newer version"
        )
