"""Imports against the real server: the rows of a file, and imports that end early.

`POST /changes` shares their mechanism: tests/api/test_change_lists.py has more of their ends.
"""

import json
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plantstore.changes import Deletion
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.postgres import execute, wait_until
from support.service import Answer, Client, Service, opened, stored_plants
from support.streams import CSV, NDJSON, NONE, import_once, line, lines, send, streaming_head
from support.wire import Wire, chunk, send_until_refused

MIB = 1024 * 1024

# As many imports of one token as may run at a time.
IMPORTS = 24

# Rows of the import whose connections to the database are terminated.
ROWS = 20_000


@pytest.fixture(autouse=True)
def _without_plants(service: Service) -> None:
    service.change(*(Deletion(id_) for id_ in stored_plants(service.database)))


def test_each_row_of_a_stream_has_an_outcome(service: Service, client: Client) -> None:
    client.post(NewPlant(1, "there"))
    client.post(NewPlant(2, "other"))
    rows = [line(1, "there"), line(2), line(3, tag="t"), b"\n", b"{}\n", b'{"id":4,"name":"b"}']

    answer = send(client, b"".join(rows))

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    errors = answer.json["errors"]
    counts = {"stored": 2, "already_stored": 1, "refused": 2}
    assert answer.json == NONE | counts | {"errors": errors}
    assert [(each["line"], each["error"]) for each in errors] == [(2, 1004), (5, 1002)]
    assert stored_plants(service.database) == {
        1: NewPlant(1, "there"),
        2: NewPlant(2, "other"),
        3: NewPlant(3, "a", "t"),
        4: NewPlant(4, "b"),
    }


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("Application/X-NDJSON; charset=utf-8", line(1, "×")),
        ('text/csv; charset="UTF-8"; header=present', "\ufeffNAME;ID;TAG\n×;1;\n".encode()),
        ("application/x-www-form-urlencoded", line(1, "×")),
        ("", line(1, "×")),
    ],
)
def test_every_media_type_is_read(
    service: Service, client: Client, media_type: str, body: bytes
) -> None:
    answer = send(client, body, media_type)

    assert (answer.status, answer.json) == (200, NONE | {"stored": 1, "errors": []})
    assert stored_plants(service.database) == {1: NewPlant(1, "×")}


@pytest.mark.parametrize(
    ("query", "counts", "name"),
    [
        ("", {"refused": 1}, "old"),
        ("?on-conflict=refuse", {"refused": 1}, "old"),
        ("?on-conflict=skip", {"skipped": 1}, "old"),
        ("?on-conflict=replace", {"replaced": 1}, "new"),
    ],
)
def test_a_row_whose_id_a_different_plant_has_is_refused_skipped_or_replaces_it(
    service: Service, client: Client, query: str, counts: dict[str, int], name: str
) -> None:
    client.post(NewPlant(1, "old"))
    client.post(NewPlant(2, "same"))
    rows = line(1, "new") + line(2, "same") + line(3)

    answer = send(client, rows, query=query, Prefer="return=minimal")

    assert answer.headers["preference-applied"] == "return=minimal"
    assert (answer.status, answer.json) == (200, NONE | {"stored": 1, "already_stored": 1} | counts)
    assert stored_plants(service.database)[1] == NewPlant(1, name)


def test_to_replace_plants_a_token_needs_both_scopes(service: Service) -> None:
    with service.client(service.token("plants:create", name="creates")) as client:
        assert send(client, line(1)).status == 200
        refused = send(client, line(1, "b"), query="?on-conflict=replace")

    assert (refused.status, refused.json["error"]) == (403, ErrorCode.SCOPE_MISSING)
    assert stored_plants(service.database) == {1: NewPlant(1, "a")}


@pytest.mark.parametrize(
    ("refused", "status", "error"),
    [
        ({"body": b'"id,name\n1,a\n', "media_type": CSV}, 400, ErrorCode.INVALID_PLANT),
        ({"Content_Encoding": "gzip"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ({"query": "?on-conflict=merge"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"query": "?dry-run=yes"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"media_type": "text/csv; header=absent"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ({"media_type": "application/json"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
    ],
)
def test_a_stream_that_is_refused_before_its_first_row_stores_nothing(
    service: Service, client: Client, refused: dict[str, Any], status: int, error: int
) -> None:
    answer = send(client, **{"body": line(1)} | refused)

    assert (answer.status, answer.json["error"]) == (status, error)
    assert answer.headers.get("accept-encoding") == ("identity" if status == 415 else None)
    assert stored_plants(service.database) == {}


def batch(after: int) -> bytes:
    """Return as many rows as a transaction has, with the next ids."""
    return lines(after + 1, after + BATCH_ROWS_MAX)


def wait_for_batch(service: Service, after: int) -> None:
    """Wait until these rows are stored."""

    def is_stored() -> bool:
        with opened(service.database) as store:
            return after + BATCH_ROWS_MAX in store.find_plants([after + BATCH_ROWS_MAX])

    wait_until(is_stored)


def begun_import(service: Service, token: str, body: bytes) -> Wire:
    """Send the beginning of an import."""
    wire = Wire(service.port)
    wire.send(streaming_head(token, media_type=NDJSON) + chunk(body))
    return wire


def test_an_import_whose_client_is_gone_ends_while_its_rows_wait_to_be_parsed(
    service: Service, token: str, client: Client
) -> None:
    rows = MIB // 2

    def refused() -> float:
        return client.total("plantstore_imported_rows_total", outcome="refused")

    before = refused()
    wires = [begun_import(service, token, b"x\n" * rows) for _ in range(IMPORTS)]
    for wire in wires:
        wire.close()
    # All places of the token are free again.
    wait_until(lambda: import_once(service, token, line(1)).status == 200)

    assert refused() - before < IMPORTS * rows / 2


def test_an_import_with_a_malformed_chunk_is_400_and_says_how_far_it_came(
    service: Service, token: str
) -> None:
    with begun_import(service, token, batch(0)) as wire:
        wait_for_batch(service, 0)
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
