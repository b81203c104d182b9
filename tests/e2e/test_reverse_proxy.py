"""nginx, HAProxy and Caddy in front of the service, configured as in docs/reverse-proxy.md."""

import json
import re
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, expect

from plantstore.changes import Deletion
from plantstore.plants import NewPlant
from plantstore.settings import Settings
from support.browser import Watch, rows
from support.fronts import (
    CLIENT,
    NAMES,
    PAGE,
    PREFIX,
    Running,
    Through,
    front,
    snippet,
)
from support.postgres import wait_until
from support.service import Service

pytestmark = pytest.mark.serve("--access-log", "--trusted-proxy", "127.0.0.1")

# The default idle timeout of the service.
IDLE_SECONDS = int(Settings().idle_seconds)


def plants_of(name: str, count: int) -> list[NewPlant]:
    """Return plants with ids of this proxy only, and with its name as their tag."""
    first = 1000 * (1 + NAMES.index(name))
    return [NewPlant(first + number, f"Abies {number}", name) for number in range(count)]


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    proxy: str = request.param
    return proxy


@pytest.fixture(scope="module")
def running(
    name: str, tmp_path_factory: pytest.TempPathFactory, service: Service
) -> Iterator[Running]:
    with front(name, tmp_path_factory.mktemp("front") / name, service.port) as proxy:
        yield proxy


def test_plants_are_created_and_listed_page_by_page_under_a_prefix(
    running: Running, name: str, token: str
) -> None:
    plants = plants_of(name, 5)
    with Through(running, token) as client:
        assert [client.create(plant) for plant in plants] == [200] * len(plants)

        listed: list[int] = []
        path: str | None = f"{PREFIX}/plants?limit=2&tag={name}"
        while path:
            answer = client.send("GET", path)
            assert answer.status == 200
            listed += [plant["id"] for plant in answer.json]
            link = re.search('<([^>]*)>; rel="next"', answer.headers.get("link", ""))
            # A client resolves the link like this (RFC 8288 §3.1).
            url = urljoin(client.url + path, link[1]) if link else ""
            path = url.removeprefix(client.url)
            assert not path or path.startswith(f"{PREFIX}/plants?")

    assert listed == [plant.id for plant in plants]


def test_the_access_log_has_the_client_the_scheme_and_the_request_id_from_the_proxy(
    running: Running, name: str, service: Service, token: str
) -> None:
    path = f"/plants/{plants_of(name, 1)[0].id - 1}"
    lies = {
        "X-Forwarded-For": "198.51.100.1",
        "X-Forwarded-Proto": "gopher",
        "X-Request-Id": "mine",
    }
    with Through(running, token) as client:
        assert client.send("GET", f"{PREFIX}{path}", headers=lies).status == 404

    def lines() -> list[dict[str, str]]:
        return [json.loads(line) for line in service.log if f'"{path}"' in line]

    wait_until(lambda: bool(lines()))
    [line] = lines()
    assert (line["client"], line["scheme"]) == (CLIENT, "https")
    assert re.fullmatch("[0-9a-f-]{32,36}", line["request_id"])


def test_urls_with_a_missing_or_surplus_slash_redirect_to_the_page_and_the_reference(
    running: Running, token: str
) -> None:
    with Through(running, token) as client:
        for path, target in ((PREFIX, f"{PREFIX}/"), (f"{PREFIX}/docs/", f"{PREFIX}/docs")):
            answer = client.send("GET", path)
            assert answer.status in {301, 302, 308}
            url = urljoin(client.url + path, answer.headers["location"])
            assert url.removeprefix("https://").partition("/")[2] == target[1:]
            assert client.send("GET", target).headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("name", NAMES[:1], scope="module")
def test_the_page_works_under_a_prefix(
    running: Running, name: str, service: Service, token: str, browser: Browser
) -> None:
    plants = plants_of(name, 52)
    service.change(*plants)
    watch = Watch()
    with browser.new_context(ignore_https_errors=True) as context:
        context.on("page", watch.watch)
        page = context.new_page()
        page.goto(f"https://127.0.0.1:{running.port}{PREFIX}/?tag={name}")
        page.get_by_label("Bearer token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        assert rows(page)[0] == [str(plants[0].id), "Abies 0", name]

        page.get_by_role("link", name="Next").first.click()

        expect(page.locator("#plants tr")).to_have_count(2)
        assert page.url.startswith(f"https://127.0.0.1:{running.port}{PREFIX}/?")
        service.change(Deletion(plants[-1].id))
        expect(page.locator("#plants tr")).to_have_count(1)
        page.goto(f"https://127.0.0.1:{running.port}{PREFIX}/docs/")
        page.locator("[id$=-getReadiness] .opblock-summary-control").click()
        page.get_by_role("button", name="Execute").click()
        status = page.locator(".live-responses-table tbody .response-col_status")
        expect(status).to_have_text("200")
        watch.assert_quiet()


@pytest.mark.parametrize("proxy", NAMES)
def test_each_documented_proxy_closes_idle_connections_before_the_service_does(
    proxy: str,
) -> None:
    shown = re.findall(r"(?:keepalive_timeout|pool-purge-delay|keepalive) (\d+)s", snippet(proxy))

    assert len(shown) == 1
    assert int(shown[0]) < IDLE_SECONDS
    assert f"`--idle-seconds`, which is {IDLE_SECONDS} seconds" in PAGE.read_text("utf-8")
