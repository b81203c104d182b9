"""The stores under test, and the PostgreSQL server that they share."""

import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from hypothesis import settings

from plantstore.storage import open_store
from plantstore.store import Store
from support.postgres import Databases, Programs, Server, programs

# How many files a test may have open: 2,000 connections, and some more.
FILES: Final = 4096


def pytest_configure() -> None:
    """Raise the soft limit on open files, which is 1,024 for most users. Measure no times.

    `nohup` ignores SIGHUP, and the processes that tests start would inherit this.
    """
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, FILES), hard), hard))


@pytest.fixture(scope="session")
def postgres_programs() -> Iterator[Programs]:
    with programs() as found:
        yield found


@pytest.fixture(scope="session")
def postgres_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the URL of a server that may make databases: ours, unless the environment has one."""
    if given := os.environ.get("PLANTSTORE_TEST_POSTGRES"):
        yield given
        return
    with Server(request.getfixturevalue("postgres_programs"), "shared") as server:
        yield server.url()


@pytest.fixture
def databases(postgres_url: str) -> Iterator[Databases]:
    with Databases(postgres_url) as made:
        yield made


@pytest.fixture
def url(databases: Databases) -> str:
    """Return the URL of an empty database of PostgreSQL."""
    return databases.new()


@pytest.fixture
def opened() -> Iterator[Callable[..., Store]]:
    """Return `open_store`. The stores that it opens are closed after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *url, **options: stack.enter_context(
            contextlib.closing(open_store(*url, **options))
        )
