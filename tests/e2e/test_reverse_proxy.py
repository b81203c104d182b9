"""nginx, HAProxy and Caddy in front of the service, configured as in docs/reverse-proxy.md."""

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import Browser, expect

from plantstore.changes import Deletion, Upsert
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from plantstore.settings import Settings
from support.browser import Watch, rows
from support.events import parse
from support.fronts import (
    CLIENT,
    NAMES,
    PREFIX,
    Running,
    Through,
    front,
    limits,
    snippet,
)
from support.postgres import wait_until
from support.service import Answer, Service, stored_plants
from support.streams import CSV, NDJSON, NONE, rendered

pytestmark = pytest.mark.serve("--access-log", "--trusted-proxy", "127.0.0.1")

# nginx may also collect the whole body before it passes it on. This is its default.
FRONTS = {
    **{name: (name, {}) for name in NAMES},
    "nginx-with-buffering": (
        "nginx",
        {"proxy_request_buffering off": "proxy_request_buffering on"},
    ),
}
PLANTS = [NewPlant(id_, f"Rosa × {id_} {'x' * 6_000}", "Rosa") for id_ in range(350)]


def plants_of(name: str, count: int) -> list[NewPlant]:
    """Return plants with ids of this proxy only, and with its name as their tag."""
    first = 10_000 * (1 + list(FRONTS).index(name))
    return [NewPlant(first + number, f"Abies {number}", name) for number in range(count)]


@pytest.fixture(scope="module", params=FRONTS)
def name(request: pytest.FixtureRequest) -> str:
    proxy: str = request.param
    return proxy


@pytest.fixture(scope="module")
def running(
    name: str, tmp_path_factory: pytest.TempPathFactory, service: Service
) -> Iterator[Running]:
    proxy, changes = FRONTS[name]
    folder = tmp_path_factory.mktemp("front") / proxy
    with front(proxy, folder, service.port, changes) as started:
        yield started


def test_links_and_redirects_lead_through_a_proxy_under_a_prefix(
    running: Running, name: str, service: Service, token: str
) -> None:
    plants = plants_of(name, 5)
    service.change(*plants)
    listed: list[int] = []
    path = f"{PREFIX}/plants?limit=2&tag={name}"
    with Through(running, token) as client:
        while path:
            answer = client.send("GET", path)
            listed += [plant["id"] for plant in answer.json]
            link = re.search('<([^>]*)>; rel="next"', answer.headers.get("link", ""))
            # A client resolves the link like this (RFC 8288 §3.1).
            path = urljoin(client.url + path, link[1]).removeprefix(client.url) if link else ""
            assert not path or path.startswith(f"{PREFIX}/plants?")
        for path, target in ((PREFIX, f"{PREFIX}/"), (f"{PREFIX}/docs/", f"{PREFIX}/docs")):
            answer = client.send("GET", path)
            assert answer.status in {301, 302, 308}
            url = urljoin(client.url + path, answer.headers["location"])
            assert url.removeprefix("https://").partition("/")[2] == target[1:]
            assert client.send("GET", target).headers["content-type"].startswith("text/html")

    assert listed == [plant.id for plant in plants]


@pytest.mark.parametrize("proxy", ["nginx", "haproxy"])
def test_a_visitor_who_asks_too_often_is_refused_and_no_other_visitor_and_no_token(
    proxy: str, tmp_path: Path, service: Service, token: str
) -> None:
    with (
        front(proxy, tmp_path / proxy, service.port, limits(proxy)) as running,
        Through(running, None) as hasty,
        Through(running, None, "127.0.0.3") as other,
        Through(running, token) as known,
    ):
        statuses = [hasty.send("GET", f"{PREFIX}/healthz").status for _ in range(30)]
        while statuses[-1] == 200 and len(statuses) < 5_000:
            statuses.append(hasty.send("GET", f"{PREFIX}/healthz").status)
        others = [each.send("GET", f"{PREFIX}/healthz").status for each in (other, known)]

    assert set(statuses[:30]) == {200}
    assert statuses[-1] == 429
    assert others == [200, 200]


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


def test_the_page_works_under_a_prefix(
    tmp_path: Path, service: Service, token: str, browser: Browser
) -> None:
    name = NAMES[0]
    plants = plants_of(name, 52)
    service.change(*map(Upsert, plants))  # another test may have changed one
    watch = Watch()
    with (
        front(name, tmp_path / name, service.port) as running,
        browser.new_context(ignore_https_errors=True) as context,
    ):
        context.on("page", watch.watch)
        page = context.new_page()
        page.goto(f"https://127.0.0.1:{running.port}{PREFIX}/?tag={name}")
        page.get_by_label("Access token").fill(token)
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
def test_each_documented_proxy_closes_idle_connections_before_the_service_does(proxy: str) -> None:
    [shown] = re.findall(r"(?:keepalive_timeout|pool-purge-delay|keepalive) (\d+)s", snippet(proxy))

    assert int(shown) < Settings().idle_seconds


def test_a_file_is_imported_and_exported_and_changes_are_made_through_a_proxy(
    service: Service, running: Running, token: str
) -> None:
    service.change(*(Deletion(id_) for id_ in stored_plants(service.database)))
    content = rendered("csv", PLANTS)
    path, media_type = f"{PREFIX}/plants.csv", {"Content-Type": CSV}
    with Through(running, token) as client:
        stored = client.send("POST", path, content, media_type)
        in_chunks = (content[start : start + 50_000] for start in range(0, len(content), 50_000))
        again = client.send("POST", path, in_chunks, media_type)
        exported = client.send("GET", path)
        lines = b"".join(b'{"id":%d,"after":null}\n' % plant.id for plant in PLANTS)
        named = {"Content-Type": NDJSON, "Change-Set": f"set-through-{running.port}"}
        deleted = client.send("POST", f"{PREFIX}/changes", lines + b"\n" * 200_000, named)

    assert len(content) > 2_000_000, "more than nginx accepts without an option"
    assert stored.json == NONE | {"stored": len(PLANTS), "errors": []}
    assert again.json == NONE | {"already_stored": len(PLANTS), "errors": []}
    assert exported.body == content
    assert deleted.json["deleted"] == len(PLANTS)
    assert deleted.headers["change-set"] == named["Change-Set"]


def test_a_change_reaches_a_follower_through_a_proxy_before_the_next_one(
    service: Service, running: Running, token: str
) -> None:
    with Through(running, token) as client:
        headers = client.headers | {"Accept": "text/event-stream"}
        client.connection.request("GET", f"{PREFIX}/changes?after=now", headers=headers)
        answer = client.connection.getresponse()
        events = parse(iter(answer.readline, b""))
        for name in ("a", "b"):
            service.change(Upsert(NewPlant(-5, name)), Deletion(-6))

            assert next(events).data["plant"] == {"id": -5, "name": name}
        answer.close()
    service.change(Deletion(-5))


def test_a_refusal_before_the_end_of_a_large_body_reaches_its_client_through_a_proxy(
    service: Service, running: Running, token: str
) -> None:
    before = stored_plants(service.database)

    unknown_token = refusal(running, "unknown")
    compressed = refusal(running, token, **{"Content-Encoding": "gzip"})

    assert (unknown_token.status, unknown_token.json["error"]) == (401, ErrorCode.TOKEN_INVALID)
    assert (compressed.status, compressed.json["error"]) == (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert stored_plants(service.database) == before


def refusal(running: Running, token: str, **fields: str) -> Answer:
    """Send a large body, until it is sent or the connection is closed; return the answer."""
    with Through(running, token) as client:
        headers = client.headers | {"Content-Type": NDJSON} | fields
        with contextlib.suppress(OSError):
            body = iter([b"x" * 50_000] * 250)
            client.connection.request("POST", f"{PREFIX}/plants.ndjson", body, headers)
        answer = client.connection.getresponse()
        return Answer(answer.status, {}, answer.read())
