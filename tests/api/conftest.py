"""A store of each engine, for the API tests that check stored plants.

The other API tests use the fake store. tests/contract/test_store.py checks that all stores
keep the same promises.
"""

from collections.abc import Callable, Iterator

import pytest

from plantstore.store import Store


@pytest.fixture(params=["fake", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, open_new: Callable[[str], Store]) -> Iterator[Store]:
    opened = open_new(request.param)
    yield opened
    opened.close()
