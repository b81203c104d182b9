"""The application in the test's process, with the fake store or with a store of each engine.

Few API tests use each engine. tests/contract/test_store.py checks that all stores keep the
same promises.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

from plantstore.store import Store
from support.world import World


@pytest.fixture
def new_world() -> Iterator[Callable[..., World]]:
    """Return what starts an application; its arguments are those of `World`."""
    with contextlib.ExitStack() as opened:
        yield lambda *args, **options: opened.enter_context(World(*args, **options))


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


@pytest.fixture(params=["fake", "sqlite", "postgres"])
def stored(request: pytest.FixtureRequest, open_new: Callable[[str], Store]) -> Iterator[World]:
    """Return an application on each engine."""
    with contextlib.closing(open_new(request.param)) as store, World(store) as world:
        yield world
