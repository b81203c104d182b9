"""The schema's migrations: numbered files of plain SQL, forward only, one folder an engine.

Each is applied together with its record, in one transaction, under a lock that all
processes share: so many may start at once, and one that dies leaves a whole schema.
"""

from contextlib import AbstractContextManager
from enum import Enum
from importlib import resources
from typing import Protocol, Self

from plantstore.errors import StoreUnavailableError


class SchemaPolicy(Enum):
    """What opening a store does about its schema. One from a newer version is always refused."""

    MIGRATE = "migrate"
    """Bring it up to date; make the store if there is none."""

    REQUIRE = "require"
    """It must be up to date."""

    ACCEPT = "accept"
    """It may be any that was once up to date."""

    @classmethod
    def of(cls, *, migrate: bool) -> Self:
        """Return the policy of what writes, and may or may not migrate."""
        return cls.MIGRATE if migrate else cls.REQUIRE


class Schema(Protocol):
    """The schema of one database, as its engine keeps it."""

    engine: str
    """The folder of its migrations."""

    database: str
    """What messages call the database."""

    def version(self) -> int:
        """Return how many migrations were applied; none if the database is empty.

        Raises:
            StoreUnavailableError: the database is another program's.

        """
        ...

    def locked(self) -> AbstractContextManager[None]:
        """Commit what the block does, or undo it all; no other process migrates meanwhile."""
        ...

    def apply(self, step: str, version: int) -> None:
        """Run the SQL of a migration, and record that the schema is now at a version."""
        ...


def migrations(engine: str) -> list[str]:
    """Return the SQL of each migration of an engine, the first one first."""
    folder = resources.files(f"plantstore.storage.{engine}") / "migrations"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sql")]


def prepare(schema: Schema, policy: SchemaPolicy) -> None:
    """Do with a schema what the policy says.

    Raises:
        StoreUnavailableError: the schema is not what the policy asks for, is
            newer than any that we know, or another program's. It is left alone.

    """
    steps = migrations(schema.engine)
    version = known_version(schema)
    if policy is SchemaPolicy.MIGRATE:
        while version < len(steps):
            with schema.locked():
                # Look again, now that none other migrates.
                version = known_version(schema)
                if version < len(steps):
                    schema.apply(steps[version], version + 1)
    elif version == 0:
        advice = "; run plantstore migrate" if policy is SchemaPolicy.REQUIRE else ""
        raise StoreUnavailableError(f"The database {schema.database} is empty{advice}")
    elif policy is SchemaPolicy.REQUIRE and version < len(steps):
        raise StoreUnavailableError(
            f"The database {schema.database} is behind: its schema is {version}, this Plant Store"
            f" needs {len(steps)}; run plantstore migrate"
        )


def known_version(schema: Schema) -> int:
    """Return a schema's version.

    Raises:
        StoreUnavailableError: it is newer than any that we know, or another program's.

    """
    version = schema.version()
    insist_on_known(schema.engine, version, schema.database)
    return version


def insist_on_known(engine: str, version: int, database: str) -> None:
    """Raise StoreUnavailableError if a schema is newer than any that we know."""
    newest = len(migrations(engine))
    if version > newest:
        raise StoreUnavailableError(
            f"The database {database} was written by a newer Plant Store "
            f"(its schema is {version}, the newest that this one knows is {newest})"
        )
