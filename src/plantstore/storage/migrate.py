"""Schema migrations: numbered SQL files in one folder per engine. There are no downgrades.

Each migration runs in one transaction together with the record that it was applied. A lock
keeps other processes from migrating at the same time. So many processes may start at once,
and a process that dies leaves a complete schema behind.

An index that the program itself maintains is filled afterwards, in many transactions. Each of
them records how far it came. So a large database needs little memory, and a process that dies
loses little work.
"""

from contextlib import AbstractContextManager
from enum import Enum
from importlib import resources
from typing import Final, Protocol, Self

from plantstore.errors import StoreUnavailableError
from plantstore.observe import NamesIndexed, Observer, ignore

# How many plants are indexed between two reports of the progress.
REPORTED_PLANTS: Final = 500_000


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

    def is_complete(self) -> bool:
        """Return whether the index of words has all plants. The schema is up to date."""
        ...

    def index_next(self) -> int:
        """Index the words of more plants, in a transaction; return how many plants.

        It continues after the plants of the call before, and returns 0 when it was at the end.
        """
        ...

    def count_plants(self) -> int:
        """Return the number of plants, in constant time."""
        ...


def migrations(engine: str) -> list[str]:
    """Return the SQL of all migrations of an engine, in order."""
    folder = resources.files(f"plantstore.storage.{engine}") / "migrations"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sql")]


def prepare(schema: Schema, policy: SchemaPolicy, observe: Observer = ignore) -> None:
    """Check the schema of a database that is being opened; apply migrations if the policy says so.

    `observe` gets the progress of the index that a new version needs.

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
    if policy is SchemaPolicy.REQUIRE and not schema.is_complete():
        raise StoreUnavailableError(
            f"The index of names of the database {schema.database} is not complete; run"
            " `plantstore migrate`"
        )
    if policy not in (SchemaPolicy.MIGRATE, SchemaPolicy.UPDATE):
        return
    while version < len(steps):
        with schema.locked():
            # Another process may have migrated before this one got the lock.
            version = known_version(schema)
            if version < len(steps):
                schema.apply(steps[version], version + 1)
    if not schema.is_complete():
        _complete(schema, observe)


def _complete(schema: Schema, observe: Observer) -> None:
    total = schema.count_plants()
    plants = 0
    while not schema.is_complete():
        while indexed := schema.index_next():
            plants += indexed
            if plants % REPORTED_PLANTS < indexed:
                observe(NamesIndexed(plants, total))


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
