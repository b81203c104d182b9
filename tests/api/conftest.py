"""The application in the test's process, with a store in memory.

tests/contract checks that the stores of all engines keep the same promises.
"""

from collections.abc import Iterator

import pytest

from support.world import World


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Return an application. The marker `world` has the arguments of `World`."""
    marker = request.node.get_closest_marker("world")
    with World(**(marker.kwargs if marker else {})) as world:
        yield world


@pytest.fixture(scope="module")
def unchanged() -> Iterator[World]:
    """Return an application that the tests of a module share, because they change nothing."""
    with World() as world:
        yield world
