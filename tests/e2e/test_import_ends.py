"""Imports that end early: their client is gone, or sends what is not HTTP."""

import contextlib
import json
from collections.abc import Iterator

import pytest

from plantstore.errors import ErrorCode
from support.measured import resident_bytes, unread_bytes
from support.postgres import wait_until
from support.service import Service, stored_plants
from support.streams import CSV, chunk, import_once, line, lines, streaming_head
from support.wire import Wire, head

MIB = 1024 * 1024

# As many imports of one token as may run at a time.
IMPORTS = 24


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def token(service: Service) -> str:
    return service.token()


def test_the_memory_of_a_row_whose_client_is_gone_is_free_again(
    service: Service, token: str
) -> None:
    body = b'id,name\n1,"' + "é\n".encode() * 500_000
    fields = (b"Content-Type: text/csv", b"Content-Length: %d" % (len(body) + 1_000))
    request = head(token, *fields).replace(b"Content-Type: application/json\r\n", b"") + body

    def send_and_close() -> None:
        wire = Wire(service.port)
        wire.send(request)
        wait_until(lambda: unread_bytes(service) == 0)
        wire.close()

    send_and_close()
    before = resident_bytes(service)
    for _ in range(40):
        send_and_close()

    wait_until(lambda: resident_bytes(service) - before < 10 * MIB)


def test_the_memory_of_many_imports_is_bounded_and_free_again(service: Service, token: str) -> None:
    row = b'id,name\n1,"' + "🌱".encode() * 1_000_000
    request = streaming_head(token, media_type=CSV) + chunk(row)
    before = resident_bytes(service)

    wires = [Wire(service.port) for _ in range(IMPORTS)]
    for wire in wires:
        wire.send(request)
    wait_until(lambda: unread_bytes(service) == 0)
    taken = resident_bytes(service) - before
    for wire in wires:
        wire.close()

    wait_until(lambda: resident_bytes(service) - before < 20 * MIB)
    assert taken < IMPORTS * 10 * MIB


def test_an_import_whose_client_is_gone_ends_while_its_rows_wait_to_be_parsed(
    service: Service, token: str
) -> None:
    rows = MIB
    request = streaming_head(token) + chunk(b"x\n" * rows)
    with contextlib.closing(service.client(service.token("metrics:read", name="m"))) as client:

        def refused() -> float:
            return client.total("plantstore_imported_rows_total", outcome="refused")

        before = refused()
        wires = [Wire(service.port) for _ in range(IMPORTS)]
        for wire in wires:
            wire.send(request)
        for wire in wires:
            wire.close()

        # All places of the token are free again.
        wait_until(lambda: import_once(service, token, line(1)).status == 200)

        assert refused() - before < IMPORTS * rows / 2


def test_an_import_with_a_malformed_chunk_is_400_and_says_how_far_it_came(
    service: Service, token: str
) -> None:
    wire = Wire(service.port)
    wire.send(streaming_head(token) + chunk(lines(1, 15_500)))
    wait_until(lambda: len(stored_plants(service.database)) >= 10_000)
    wire.send(b"no size\r\n")

    status, headers, body = wire.answer()

    stored = len(stored_plants(service.database))
    assert (status, headers[b"connection"]) == (400, b"close")
    assert json.loads(body) == {
        "error": ErrorCode.BAD_REQUEST,
        "message": "The request is not HTTP/1.1",
        "lines_stored_through": stored,
    }
    assert wire.is_closed()
    wire.close()
