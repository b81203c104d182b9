"""`POST /plants.csv` and `POST /plants.ndjson`: the rows of an import, against the real server."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from plantstore.changes import Deletion
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.service import Client, Service, stored_plants
from support.streams import (
    CSV,
    NDJSON,
    NONE,
    line,
    lines,
    send,
    streaming_head,
)
from support.wire import Wire, chunk


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
        ("text/csv", "id,name\r\n1,×\r\n".encode()),
        ('text/csv; charset="UTF-8"; header=present', "\ufeffNAME;ID;TAG\n×;1;\n".encode()),
        ("text/csv", "tag\tid\tname\n\t1\t×".encode()),
        ("application/x-www-form-urlencoded", line(1, "×")),
        ("", line(1, "×")),
    ],
)
def test_every_media_type_and_separator_is_read(
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
    token = service.token("plants:create", name="creates")
    with service.client(token) as client:
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
        ({"query": "?onconflict=skip"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"query": "?dry-run=yes"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"Authorization": "Bearer x"}, 401, ErrorCode.TOKEN_INVALID),
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


def test_each_line_of_a_list_of_changes_has_an_outcome(service: Service, client: Client) -> None:
    service.change(*(NewPlant(id_, "old") for id_ in range(1, 1_001)))
    old, new = '{"name":"old"}', '{"name":"old","tag":"t"}'
    changes = [(id_, old, new) for id_ in range(1, 501)]
    changes += [(id_, old, "null") for id_ in range(501, 1_001)]
    changes += [(1_000, "null", new), (1, old, new), (2, old, "null"), (2_000, old, "null")]
    body = (f'{{"id":{id_},"before":{before},"after":{after}}}\n' for id_, before, after in changes)

    sent = (each.encode() for each in body)
    answer = client.send("POST", "/changes", sent, {"Content-Type": NDJSON})

    [error] = answer.json["errors"]
    counts = {"stored": 1, "replaced": 500, "deleted": 500, "already_stored": 2, "refused": 1}
    assert (answer.status, answer.json) == (200, counts | {"errors": [error]})
    assert (error["line"], error["error"]) == (1_003, ErrorCode.PRECONDITION_FAILED)
    assert error["plant"] == {"id": 2, "name": "old", "tag": "t"}
    tagged = {id_: NewPlant(id_, "old", "t") for id_ in (*range(1, 501), 1_000)}
    assert stored_plants(service.database) == tagged


def test_after_a_100_a_stream_is_sent_and_the_connection_is_kept(
    service: Service, token: str
) -> None:
    with Wire(service.port) as wire:
        wire.send(streaming_head(token, b"Expect: 100-continue"))
        assert wire.answer()[0] == 100
        wire.send(chunk(line(1)) + b"0\r\n\r\n")
        assert wire.answer()[0] == 200

        wire.send(streaming_head(token) + chunk(line(2)) + b"0\r\n\r\n")

        assert json.loads(wire.answer()[2])["stored"] == 1


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service whose tokens may be used 8 times, so that batches have 4 rows.

    The rates are per day, so that no test depends on how long it takes.
    """
    rates = ("--rate-per-token", "12/day;8/2 days")
    with Service(tmp_path_factory.mktemp("limited"), *rates) as service:
        yield service


@pytest.mark.parametrize(
    ("before", "body", "status", "through"),
    [
        pytest.param([], lines(1, 8), 200, 8, id="as many rows as uses"),
        pytest.param([], lines(1, 12), 429, 8, id="no larger batch than half of the rate"),
        pytest.param([line(100)], lines(1, 8), 429, 4, id="half of the smallest rate"),
        pytest.param([line(100)], lines(1, 9), 429, 4, id="no batch after a refused one"),
        pytest.param([b"{}\n" * 6], b"{}\n{}\n" + line(3), 429, 0, id="rows that are not valid"),
    ],
)
def test_no_row_after_a_batch_that_is_refused_is_stored(
    limited: Service, before: list[bytes], body: bytes, status: int, through: int
) -> None:
    limited.change(*(Deletion(id_) for id_ in stored_plants(limited.database)))
    token = limited.token(name=f"{time.monotonic_ns()}")
    with limited.client(token) as client:
        for rows in before:
            assert send(client, rows).status == 200
        answer = send(client, body)
        after = client.post(NewPlant(100, "a"))

    assert (answer.status, answer.json.get("lines_stored_through", 8)) == (status, through)
    assert stored_plants(limited.database).keys() - {100} == set(range(1, through + 1))
    assert (after.status == 429) is (through == 8)
