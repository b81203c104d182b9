"""The stores, and which URL names which."""

from plantstore.errors import UsageError
from plantstore.observe import Observer, ignore
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.store import Store

_POSTGRES_PREFIXES = ("postgresql://", "postgres://")


def open_store(
    url: str,
    policy: SchemaPolicy = SchemaPolicy.MIGRATE,
    *,
    standbys_min: int = 0,
    observe: Observer = ignore,
) -> Store:
    """Open the store that a database URL names, and do with its schema what the policy says.

    `sqlite:///plants.db` is a file beside the working directory,
    `sqlite:////var/lib/plants.db` one by its absolute path;
    `postgresql://USER@HOST:PORT/NAME` is a database of PostgreSQL.

    Args:
        url: the database.
        policy: what to do about its schema.
        standbys_min: how many synchronous standbys of PostgreSQL a change must stand on.
        observe: is told which server of PostgreSQL is the primary, whenever that changes.

    Raises:
        UsageError: the URL names no store that we have.
        StoreUnavailableError: when it cannot be opened, or is not ours, or not there.

    """
    if url.startswith(_POSTGRES_PREFIXES):
        return _open_postgres(url, policy, standbys_min, observe)
    if standbys_min:
        raise UsageError("--standbys-min is for PostgreSQL: SQLite has no standbys")
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path or "?" in path or "#" in path:
        # What is not ours is not quoted: it may hold a password.
        got = f", got {url!r}" if scheme == "sqlite" else ""
        raise UsageError(
            "The database must be sqlite:///FILE, sqlite:////FILE or"
            f" postgresql://USER@HOST:PORT/NAME{got}"
        )
    if path == ":memory:":
        raise UsageError("A database in memory would lose every plant; name a file")
    return SQLiteStore(path, policy)


def display_url(url: str) -> str:
    """Return the URL of a database without what may be secret in it: password and parameters."""
    if not url.startswith(_POSTGRES_PREFIXES):
        return url
    scheme, _, rest = url.partition("://")
    place, _, query = rest.partition("?")
    # An @ there may belong to a password that is not percent-encoded as it should be.
    return f"{scheme}://..." if "@" in query else f"{scheme}://{place.rpartition('@')[2]}"


def _open_postgres(url: str, policy: SchemaPolicy, standbys_min: int, observe: Observer) -> Store:
    try:
        # An extra, which who keeps to SQLite does not install.
        from plantstore.storage.postgres.store import PostgresStore  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        raise UsageError(
            "PostgreSQL needs more than is installed: pip install 'plantstore[postgres]'"
        ) from None
    return PostgresStore(url, display_url(url), policy, standbys_min=standbys_min, observe=observe)
