"""Imports over HTTP that end early: the client, the service, the database or the token is gone."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.errors import ErrorCode
from support.measured import unread_bytes
from support.postgres import execute, wait_until
from support.service import Answer, Service, opened, stored_plants
from support.streams import CSV, NDJSON, import_once, line, lines, streaming_head
from support.wire import Wire, chunk, send_until_refused

pytestmark = pytest.mark.serve("--access-log")

MIB = 1024 * 1024

# As many imports of one token as may run at a time.
IMPORTS = 24

# Rows of the import whose connections to the database are terminated.
ROWS = 20_000


def stored_between(service: Service, first: int, last: int) -> list[int]:
    """Return the stored ids from the first to the last one."""
    with opened(service.database) as store:
        ids = [plant.id for plants in store.scan_plants() for plant in plants]
    return [id_ for id_ in ids if first <= id_ <= last]


def batch(after: int) -> bytes:
    """Return as many rows as a transaction has, with the next ids."""
    return lines(after + 1, after + BATCH_ROWS_MAX)


def wait_for_batch(service: Service, after: int) -> None:
    """Wait until these rows are stored."""
    ids = after + 1, after + BATCH_ROWS_MAX
    wait_until(lambda: len(stored_between(service, *ids)) == BATCH_ROWS_MAX)


def begun_import(service: Service, token: str, body: bytes, media_type: str = NDJSON) -> Wire:
    """Send the beginning of an import."""
    wire = Wire(service.port)
    wire.send(streaming_head(token, media_type=media_type) + chunk(body))
    return wire


def test_the_memory_of_many_imports_is_bounded_and_free_again(service: Service, token: str) -> None:
    row = b'id,name\n1,"' + "🌱".encode() * 1_000_000
    before = service.resident_mib()

    wires = [begun_import(service, token, row, CSV) for _ in range(IMPORTS)]
    wait_until(lambda: unread_bytes(service) == 0)
    taken = service.resident_mib() - before
    for wire in wires:
        wire.close()

    wait_until(lambda: service.resident_mib() - before < 20)
    assert taken < IMPORTS * 10


def test_an_import_whose_client_is_gone_ends_while_its_rows_wait_to_be_parsed(
    service: Service, token: str
) -> None:
    rows = MIB // 2
    with service.client(service.token("metrics:read", name="m")) as client:

        def refused() -> float:
            return client.total("plantstore_imported_rows_total", outcome="refused")

        before = refused()
        wires = [begun_import(service, token, b"x\n" * rows) for _ in range(IMPORTS)]
        for wire in wires:
            wire.close()

        # All places of the token are free again.
        wait_until(lambda: import_once(service, token, line(1)).status == 200)

        assert refused() - before < IMPORTS * rows / 2


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("impatient"), "--request-seconds", "1") as running:
        yield running


def test_a_client_that_stops_sending_gets_408_and_how_far_it_came(impatient: Service) -> None:
    with begun_import(impatient, impatient.token(name="stops"), batch(0) + line(-1)) as wire:
        status, _, body = wire.answer()

    assert (status, json.loads(body)["error"]) == (408, ErrorCode.REQUEST_TIMEOUT)
    assert json.loads(body)["lines_stored_through"] == BATCH_ROWS_MAX
    assert len(stored_between(impatient, -1, BATCH_ROWS_MAX)) == BATCH_ROWS_MAX


def test_a_stream_ends_when_its_token_is_revoked(service: Service) -> None:
    with begun_import(service, service.token(name="lost"), batch(20_000)) as wire:
        wait_for_batch(service, 20_000)
        with opened(service.database) as store:
            store.revoke_token("lost", 1)

        send_until_refused(wire, chunk(batch(30_000)))

        status, _, body = wire.answer()
    assert (status, json.loads(body)["error"]) == (401, ErrorCode.TOKEN_INVALID)
    assert json.loads(body)["lines_stored_through"] >= BATCH_ROWS_MAX


def test_an_import_with_a_malformed_chunk_is_400_and_says_how_far_it_came(
    service: Service, token: str
) -> None:
    with begun_import(service, token, batch(40_000)) as wire:
        wait_for_batch(service, 40_000)
        wire.send(b"no size\r\n")

        status, headers, body = wire.answer()

        is_closed = wire.is_closed()
    assert (status, headers[b"connection"], is_closed) == (400, b"close", True)
    assert json.loads(body) == {
        "error": ErrorCode.BAD_REQUEST,
        "message": "The request is not HTTP/1.1",
        "lines_stored_through": BATCH_ROWS_MAX,
    }


def test_a_stop_ends_an_import_of_a_client_that_sends_without_end(tmp_path: Path) -> None:
    """The rows are not valid, so it ends while they are parsed. Another client waits."""
    with Service(tmp_path, "--stop-seconds", "1") as service, ThreadPoolExecutor(1) as pool:
        token = service.token()
        waiting = begun_import(service, token, batch(0))
        wait_for_batch(service, 0)
        wire = begun_import(service, token, batch(10_000))
        sending = pool.submit(send_until_refused, wire, chunk(b"x\n" * 16_000))
        wait_for_batch(service, 10_000)

        service.process.send_signal(signal.SIGTERM)

        status, _, body = waiting.answer()
        sent = sending.result(60)
        ended = service.process.wait(60)
        wire.close()
        waiting.close()

    assert ended == 0
    assert sent < 64 * MIB
    assert (status, json.loads(body)["error"]) == (503, ErrorCode.STORE_UNAVAILABLE)
    assert json.loads(body)["lines_stored_through"] == BATCH_ROWS_MAX


@pytest.mark.engines("postgres")
def test_an_import_whose_database_connections_are_terminated_is_completed_by_sending_it_again(
    tmp_path: Path, database: str
) -> None:
    cut = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'plantstore' AND pid <> pg_backend_pid()
    """

    def count(last: int) -> int:
        [(rows,)] = execute(database, f"SELECT count(*) FROM plants WHERE id <= {last}")
        return int(rows)

    def cut_repeatedly() -> None:
        for rows in range(2_000, 12_000, 2_000):
            wait_until(lambda rows=rows: count(ROWS) >= rows)  # type: ignore[misc]
            execute(database, cut)

    with Service(tmp_path) as service, ThreadPoolExecutor(1) as pool:
        token = service.token()
        body = lines(1, ROWS)
        cutting = pool.submit(cut_repeatedly)
        refused: list[Answer] = []
        while (answer := import_once(service, token, body)).status != 200:
            refused.append(answer)
        cutting.result(60)

        assert {each.json["error"] for each in refused} <= {ErrorCode.STORE_UNAVAILABLE}
        for each in refused:
            # Missing if the token could not be looked up, so that the import did not begin.
            through = each.json.get("lines_stored_through", 0)
            assert count(through) == through
        assert answer.json["stored"] + answer.json["already_stored"] == ROWS
        assert stored_plants(database).keys() == set(range(1, ROWS + 1))
