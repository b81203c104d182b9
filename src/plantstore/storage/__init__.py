"""The stores, and which URL names which."""

from plantstore.errors import UsageError
from plantstore.storage.sqlite import SQLiteStore
from plantstore.store import Store


def open_store(url: str, *, create: bool = True) -> Store:
    """Open the store that a database URL names; create it where there is none, if told so.

    `sqlite:///plants.db` is a file beside the working directory,
    `sqlite:////var/lib/plants.db` one by its absolute path.

    Raises:
        UsageError: the URL names no store that we have.
        StoreUnavailableError: when it cannot be opened, or is not ours, or not there.

    """
    scheme, separator, path = url.partition(":///")
    if scheme != "sqlite" or not separator or not path or "?" in path or "#" in path:
        raise UsageError(
            f"The database must be sqlite:///FILE or sqlite:////FILE, got {url!r}",
        )
    if path == ":memory:":
        raise UsageError("A database in memory would lose every plant; name a file")
    return SQLiteStore(path, create=create)
