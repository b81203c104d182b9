"""Fixtures that run the service and its commands on SQLite.

What depends on the engine is marked: `@pytest.mark.engines("sqlite", "postgres")`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from plantstore.changes import Deletion
from plantstore.plants import NewPlant
from support.browser import Watch, enter, running_browser
from support.service import Client, Service, stored_plants


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    engines = metafunc.definition.get_closest_marker("engines")
    names = engines.args if engines else ("sqlite",)
    metafunc.parametrize("database", names, indirect=True)


@pytest.fixture(autouse=True)
def database(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Return the database URL that the service and its commands use in the test's folder."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/plants.db"
    url: str = request.getfixturevalue("databases").new()
    monkeypatch.setenv("PLANTSTORE_DATABASE", url)
    return url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser. While it is open, an event loop runs in the thread of the tests."""
    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def garden(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Return a service that the tests of a module share, with the options of the mark `serve`."""
    options = request.node.get_closest_marker("serve")
    folder = tmp_path_factory.mktemp("garden")
    with Service(folder, *(options.args if options else ())) as running:
        yield running


@pytest.fixture(scope="module")
def service(garden: Service) -> Service:
    return garden


@pytest.fixture(scope="module")
def token(garden: Service) -> str:
    """Return a token of the garden that has all scopes."""
    return garden.token()


@pytest.fixture(scope="module")
def client(garden: Service, token: str) -> Iterator[Client]:
    """Return a client with this token, whose connection the tests of a module share."""
    with garden.client(token) as opened:
        yield opened


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture
def context(browser: Browser, watch: Watch) -> Iterator[BrowserContext]:
    """Return the browser context of one user. The browser must have reported no problem in it."""
    with browser.new_context() as context:
        context.on("page", watch.watch)
        yield context
        watch.assert_quiet()


@pytest.fixture
def open_page(context: BrowserContext, garden: Service, token: str) -> Callable[..., Page]:
    """Return a function that replaces all plants of the garden, and signs in on its page."""

    def open_one(*plants: NewPlant, secret: str = token) -> Page:
        garden.change(*(Deletion(id_) for id_ in stored_plants(garden.database)), *plants)
        page = context.new_page()
        enter(page, garden, secret)
        expect(page.locator("#plants-title")).to_be_attached()
        return page

    return open_one
