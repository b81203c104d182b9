"""Fixtures that open and close stores."""

import contextlib
import functools
from collections.abc import Callable, Iterator

import pytest

from plantstore.storage import open_store
from plantstore.store import Store
from support.postgres import Databases


@pytest.fixture(params=["fake", "sqlite", "shared", "postgres"])
def open_another(
    request: pytest.FixtureRequest, open_new: Callable[[str], Store]
) -> Callable[[], Store]:
    """Return a function that opens a new, empty store at each call."""
    return functools.partial(open_new, request.param)


@pytest.fixture
def url(databases: Databases) -> str:
    return databases.new()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Return a function that opens stores. They are closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda url: stack.enter_context(contextlib.closing(open_store(url)))


@pytest.fixture
def store(url: str, opened: Callable[[str], Store]) -> Store:
    return opened(url)
