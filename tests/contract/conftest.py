"""Stores in PostgreSQL, opened and closed."""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from plantstore.storage import open_store
from plantstore.store import Store
from support.postgres import Databases


@pytest.fixture
def url(databases: Databases) -> str:
    return databases.new()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Return what opens stores, which are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda url: stack.enter_context(contextlib.closing(open_store(url)))


@pytest.fixture
def store(url: str, opened: Callable[[str], Store]) -> Store:
    return opened(url)
