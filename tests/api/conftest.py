"""The application in the test's process, with a store in memory.

tests/contract checks that the stores of all engines keep the same promises.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest

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
