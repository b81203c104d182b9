"""The API, on a store of each engine."""

from collections.abc import Callable, Iterator

import pytest

from plantstore.store import Store
from support import world


@pytest.fixture(autouse=True, params=["memory", "sqlite", "postgres"])
def engine(
    request: pytest.FixtureRequest,
    open_new: Callable[[str], Store],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    opened: list[Store] = []

    def open_and_remember() -> Store:
        opened.append(open_new(request.param))
        return opened[-1]

    monkeypatch.setattr(world, "open_new_store", open_and_remember)
    yield
    for store in opened:
        store.close()
