"""Fixtures that make databases, and open and close stores."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.storage import open_store
from plantstore.store import Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a database of SQLite that does not exist yet."""
    return tmp_path / "plants.db"


def url_of(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database of the engine that a fixture has as its parameter."""
    if request.param == "sqlite":
        return f"sqlite:///{request.getfixturevalue('path')}"
    url: str = request.getfixturevalue("url")
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty database of each engine. A file of SQLite does not exist yet."""
    return url_of(request)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    engines = metafunc.definition.get_closest_marker("engines")
    if engines and "store" in metafunc.fixturenames:
        metafunc.parametrize("store", engines.args, indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Yield a new store of each engine that the mark `engines` of the test names."""
    with contextlib.closing(open_store(url_of(request))) as opened:
        yield opened
