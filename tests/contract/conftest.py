"""Fixtures that make databases, and open and close stores."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plantstore.storage import open_store
from plantstore.store import Store

if TYPE_CHECKING:
    from support.postgres import Databases


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a database of SQLite that does not exist yet."""
    return tmp_path / "plants.db"


@pytest.fixture
def url(databases: "Databases") -> str:
    """Return the URL of an empty database of PostgreSQL."""
    return databases.new()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, path: Path) -> str:
    """Return the URL of an empty database of each engine. A file of SQLite does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("url")
    return url


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Return `open_store`. The stores that it opens are closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *url, **options: stack.enter_context(
            contextlib.closing(open_store(*url, **options))
        )


@pytest.fixture
def store(url: str, opened: Callable[..., Store]) -> Store:
    """Return a store on PostgreSQL."""
    return opened(url)
