"""Fixtures that make databases, and open and close stores."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a database of SQLite that does not exist yet."""
    return tmp_path / "plants.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, path: Path) -> str:
    """Return the URL of an empty database of each engine. A file of SQLite does not exist yet."""
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    url: str = request.getfixturevalue("url")
    return url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    engines = metafunc.definition.get_closest_marker("engines")
    if engines and "store" in metafunc.fixturenames:
        metafunc.parametrize("store", engines.args, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, open_new: Callable[[str], Store]) -> Iterator[Store]:
    """Yield a new store of each engine that the mark `engines` of the test names."""
    with contextlib.closing(open_new(request.param)) as opened:
        yield opened
