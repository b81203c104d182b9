"""A store of each engine, for the tests of the API that are about what is stored.

The others run on the store in memory. That all stores keep the same promises is what
tests/contract/test_store.py shows.
"""

from collections.abc import Callable, Iterator

import pytest

from plantstore.store import Store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, open_new: Callable[[str], Store]) -> Iterator[Store]:
    opened = open_new(request.param)
    yield opened
    opened.close()
