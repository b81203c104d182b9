"""Imports and exports through nginx, HAProxy and Caddy, configured as in docs/reverse-proxy.md."""

import contextlib
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.changes import Deletion, Upsert
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.events import parse
from support.fronts import NAMES, PREFIX, Running, Through, front
from support.service import Answer, Service, opened, stored_plants
from support.streams import CSV, NDJSON, NONE, rendered

# nginx may also collect the whole body before it passes it on. This is its default.
FRONTS = {
    **{name: (name, {}) for name in NAMES},
    "nginx with request buffering": (
        "nginx",
        {"proxy_request_buffering off": "proxy_request_buffering on"},
    ),
}
PLANTS = [NewPlant(id_, f"Rosa × {id_} {'x' * 6_000}", "Rosa") for id_ in range(1_400)]


@pytest.fixture(scope="module", params=FRONTS)
def running(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    service: Service,
) -> Iterator[Running]:
    name, changes = FRONTS[request.param]
    folder = tmp_path_factory.mktemp("front") / name
    with front(name, folder, service.port, changes) as proxy:
        yield proxy


def test_a_file_is_imported_and_exported_through_a_proxy(
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

    assert len(content) > 8_000_000
    assert stored.json == NONE | {"stored": len(PLANTS), "errors": []}
    assert again.json == NONE | {"already_stored": len(PLANTS), "errors": []}
    assert exported.body == content


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
            body = iter([b"x" * 50_000] * 500)
            client.connection.request("POST", f"{PREFIX}/plants.ndjson", body, headers)
        answer = client.connection.getresponse()
        return Answer(answer.status, {}, answer.read())


@pytest.fixture(scope="module")
def many_plants(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a database of more plants than all sockets on the way hold."""
    folder = tmp_path_factory.mktemp("many")
    with opened(f"sqlite:///{folder}/plants.db") as store:
        store.apply_changes([NewPlant(id_, "x" * 2_000) for id_ in range(30_000)])
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_client_notices_through_a_proxy_that_an_export_broke_off(
    name: str, tmp_path: Path, many_plants: Path
) -> None:
    with (
        Service(many_plants) as service,
        front(name, tmp_path / name, service.port) as proxy,
        Through(proxy, service.token(name=name)) as client,
    ):
        client.connection.request("GET", f"{PREFIX}/plants.ndjson", headers=client.headers)
        answer = client.connection.getresponse()
        begun = answer.read(1_000_000)

        service.process.kill()

        with pytest.raises((http.client.IncompleteRead, OSError)):
            answer.read()
    assert answer.status == 200
    assert len(begun) == 1_000_000
