"""Imports and exports through nginx, HAProxy and Caddy, configured as in docs/reverse-proxy.md."""

import contextlib
import http.client
import re
import select
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.changes import Deletion
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.command import run
from support.fronts import NAMES, PREFIX, Running, Through, front
from support.service import Answer, Service, stored_plants
from support.streams import MEDIA_TYPES, NONE, chunk, rendered, streaming_head

# nginx may also collect the whole body before it passes it on. This is its default.
FRONTS = {
    **{name: (name, {}) for name in NAMES},
    "nginx with request buffering": (
        "nginx",
        {"proxy_request_buffering off": "proxy_request_buffering on"},
    ),
}
PLANTS = [NewPlant(id_, f"Rosa × {id_} {'x' * 1_000}", "Rosa") for id_ in range(8_000)]


@pytest.fixture(scope="module")
def module_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def token(module_service: Service) -> str:
    return module_service.token()


@pytest.fixture(scope="module", params=FRONTS)
def running(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    module_service: Service,
) -> Iterator[Running]:
    name, changes = FRONTS[request.param]
    folder = tmp_path_factory.mktemp("front") / name
    with front(name, folder, module_service.port, changes) as proxy:
        yield proxy


@pytest.fixture
def service(module_service: Service) -> Service:
    """Return the service, without plants."""
    module_service.change(*(Deletion(id_) for id_ in stored_plants(module_service.database)))
    return module_service


@pytest.mark.parametrize("form", MEDIA_TYPES)
def test_a_file_is_imported_and_exported_through_a_proxy(
    service: Service, running: Running, token: str, form: str
) -> None:
    content = rendered(form, PLANTS)
    path, media_type = f"{PREFIX}/plants.{form}", {"Content-Type": MEDIA_TYPES[form]}
    with Through(running, token) as client:
        stored = client.send("POST", path, content, media_type)
        in_chunks = (content[start : start + 50_000] for start in range(0, len(content), 50_000))
        again = client.send("POST", path, in_chunks, media_type)
        exported = client.send("GET", path)

    assert len(content) > 8_000_000
    assert stored.json == NONE | {"stored": len(PLANTS), "errors": []}
    assert again.json == NONE | {"already_stored": len(PLANTS), "errors": []}
    assert exported.body == content
    run(service.folder, "export", f"expected.{form}")
    assert exported.body == (service.folder / f"expected.{form}").read_bytes()


def test_a_refusal_before_the_end_of_a_large_body_reaches_its_client_through_a_proxy(
    service: Service, running: Running, token: str
) -> None:
    rest = [b"x" * 50_000] * 500

    unknown_token = send_until_answered(running, streaming_head_through("unknown"), rest)
    compressed = send_until_answered(
        running, streaming_head_through(token, b"Content-Encoding: gzip"), rest
    )

    assert (unknown_token.status, unknown_token.json["error"]) == (401, ErrorCode.TOKEN_INVALID)
    assert (compressed.status, compressed.json["error"]) == (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert stored_plants(service.database) == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_client_notices_through_a_proxy_that_an_export_broke_off(
    name: str, tmp_path: Path
) -> None:
    with Service(tmp_path) as service:
        # More than all sockets on the way hold.
        service.change(*(NewPlant(id_, "x" * 100_000) for id_ in range(600)))
        with (
            front(name, tmp_path / name, service.port) as proxy,
            Through(proxy, service.token()) as client,
        ):
            path = f"{PREFIX}/plants.ndjson"
            client.connection.request("GET", path, headers=client.headers)
            answer = client.connection.getresponse()
            begun = answer.read(1_000_000)

            service.process.kill()

            with pytest.raises((http.client.IncompleteRead, OSError)):
                answer.read()
    assert answer.status == 200
    assert len(begun) == 1_000_000


def streaming_head_through(token: str, *fields: bytes) -> bytes:
    head = streaming_head(token, *fields)
    return head.replace(b"POST /", b"POST %b/" % PREFIX.encode()).replace(
        b"plants\r", b"127.0.0.1\r"
    )


def send_until_answered(running: Running, head: bytes, pieces: list[bytes]) -> Answer:
    """Send a request until its answer arrives, as RFC 9112 §9.3 asks of clients."""
    unsent = memoryview(head + b"".join(map(chunk, pieces)) + b"0\r\n\r\n")
    received = b""
    with Through(running, "") as client:
        client.connection.connect()
        connection = client.connection.sock
        connection.settimeout(0)
        while (answer := complete_answer(received)) is None:
            if unsent and not received:
                try:
                    unsent = unsent[connection.send(unsent[:16_384]) :]
                except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    pass
                except (ssl.SSLEOFError, ConnectionError):  # closed; the answer may be there
                    unsent = unsent[:0]
            writing = [connection] if unsent and not received else []
            assert any(select.select([connection], writing, [], 30)), "there is no answer"
            with contextlib.suppress(ssl.SSLWantReadError):
                piece = connection.recv(65_536)
                assert piece, "the connection was closed without an answer"
                received += piece
    return answer


def complete_answer(received: bytes) -> Answer | None:
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
    if length is None or len(body) < int(length[1]):
        return None
    return Answer(int(head.split()[1]), {}, body)
