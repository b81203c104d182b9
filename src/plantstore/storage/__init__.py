"""The stores, and the database URLs that select them."""

import os
from pathlib import Path
from typing import Any, Final

from plantstore import __version__
from plantstore.errors import NothingDoneError, UsageError
from plantstore.observe import Observer, ignore
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite import guard
from plantstore.storage.sqlite.guard import Files
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.store import Store

_POSTGRES_PREFIXES: Final = ("postgresql://", "postgres://")

# The suffixes of a file of SQLite, and of those that SQLite may leave beside it.
SQLITE_SUFFIXES: Final = ("", "-journal", "-wal", "-shm")


def open_store(
    url: str,
    policy: SchemaPolicy = SchemaPolicy.MIGRATE,
    *,
    standbys_min: int = 0,
    observe: Observer = ignore,
    grant_to: str | None = None,
) -> Store:
    """Open the store of a database URL.

    `sqlite:///plants.db` is a file in the working directory, `sqlite:////var/lib/plants.db`
    has an absolute path, and `postgresql://USER@HOST:PORT/NAME` is a PostgreSQL database.

    Args:
        url: the database.
        policy: what to do about its schema.
        standbys_min: minimum number of synchronous PostgreSQL standbys that a commit waits for.
        observe: is called when a store is created, with the progress of a migration, if a file has
            hard links, and when the PostgreSQL primary changes.
        grant_to: the role of PostgreSQL that gets the rights to use the tables.

    Raises:
        UsageError: the URL is malformed, or of an unknown kind.
        OperationError: the database has no such role.
        StoreUnavailableError: the database does not exist, cannot be opened, or belongs to
            another program.

    """
    if _is_postgres(url):
        return _open_postgres(
            url, policy, standbys_min=standbys_min, observe=observe, grant_to=grant_to
        )
    if standbys_min:
        raise UsageError("--standbys-min needs PostgreSQL: SQLite has no standbys")
    if grant_to is not None:
        raise UsageError("--grant-to needs PostgreSQL: SQLite has no roles")
    return SQLiteStore(_sqlite_path(url), policy, observe=observe)


def has_one_writer(url: str) -> bool:
    """Return whether one process at a time can write, so that others only wait for it."""
    return not _is_postgres(url)


def identify_files(url: str) -> Files | None:
    """Return what identifies the files of a store that is open; None if it is on a server."""
    return None if _is_postgres(url) else guard.identify_files(_real_path(url))


def require_files(url: str, files: Files | None) -> None:
    """Raise NothingDoneError unless a store still has the files that were identified."""
    if files is not None and (problem := guard.describe_loss(_real_path(url), files)):
        raise NothingDoneError(problem)


def database_files(url: str) -> list[Path]:
    """Return the paths of all files that a store may use; none for a database on a server."""
    if _is_postgres(url):
        return []
    path = _real_path(url)
    return [Path(f"{path}{suffix}") for suffix in SQLITE_SUFFIXES]


def display_url(url: str) -> str:
    """Return a database URL without its password and parameters, which may be secret."""
    if not _is_postgres(url):
        return url
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    # An @ after the question mark may be part of a password that was not percent-encoded.
    return f"{scheme}://..." if "@" in query else f"{scheme}://{place.rpartition('@')[2]}"


def _is_postgres(url: str) -> bool:
    return url.startswith(_POSTGRES_PREFIXES)


def _real_path(url: str) -> str:
    return os.path.realpath(_sqlite_path(url))


def _sqlite_path(url: str) -> str:
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path or "?" in path or "#" in path:
        raise UsageError(
            "--database must be sqlite:///FILE, sqlite:////FILE or postgresql://USER@HOST:PORT/NAME"
        )
    require_utf8("--database", os.path.realpath(path))
    if path == ":memory:":
        raise UsageError("--database must be a file: a database in memory would lose every plant")
    return path


def require_utf8(what: str, path: str) -> None:
    """Raise UsageError if SQLite cannot open a path that somebody named."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} must be UTF-8: SQLite takes no other file names") from None


def _open_postgres(url: str, policy: SchemaPolicy, **options: Any) -> Store:  # noqa: ANN401 (those of PostgresStore)
    try:
        # psycopg is an optional dependency.
        from plantstore.storage.postgres.postgres_store import PostgresStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "psycopg":
            raise
        is_checkout = (Path(__file__).parents[3] / "Makefile").exists()
        # No package index has the project: whoever registers its name there could run any code.
        wheel = f"plantstore-{__version__}-py3-none-any.whl"
        command = "make postgres" if is_checkout else f"pip install '{wheel}[postgres]'"
        raise UsageError(f"PostgreSQL support is not installed: run {command}") from None
    return PostgresStore(url, display_url(url), policy, **options)
