"""`POST /plants.csv` and `POST /plants.ndjson`, against the real server."""

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.api.imports import IMPORTS_MAX
from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.flood import peak_mib
from support.postgres import wait_until
from support.service import Answer, Client, Service, opened, stored_plants
from support.streams import NDJSON, NONE, chunk, line, lines, send, streaming_head
from support.wire import Wire, send_until_refused


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, "--request-seconds", "1") as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with contextlib.closing(service.client(service.token())) as opened:
        yield opened


@pytest.mark.engines("sqlite", "postgres")
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
        ("application/jsonl", line(1, "×")),
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


@pytest.mark.engines("sqlite", "postgres")
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


def test_the_first_thousand_errors_are_listed_and_all_are_counted(client: Client) -> None:
    answer = send(client, b"{}\n" * 1_500 + line(1))

    assert (answer.json["stored"], answer.json["refused"]) == (1, 1_500)
    assert [each["line"] for each in answer.json["errors"]] == list(range(1, 1_001))


def test_to_replace_plants_a_token_needs_both_scopes(service: Service) -> None:
    with contextlib.closing(service.client(service.token("plants:create"))) as client:
        assert send(client, line(1)).status == 200
        refused = send(client, line(1, "b"), query="?on-conflict=replace")

    assert (refused.status, refused.json["error"]) == (403, ErrorCode.SCOPE_MISSING)
    assert stored_plants(service.database) == {1: NewPlant(1, "a")}


@pytest.mark.parametrize(
    ("refused", "status", "error"),
    [
        ({"media_type": "text/csv"}, 400, ErrorCode.INVALID_PLANT),
        ({"query": "?on-conflict=merge"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"query": "?onconflict=skip"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"Content_Encoding": "gzip"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ({"Authorization": "Bearer x"}, 401, ErrorCode.TOKEN_INVALID),
        ({"media_type": f"{NDJSON}; charset=latin-1"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ({"media_type": "text/csv; header=absent"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ({"media_type": "application/json"}, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
    ],
)
def test_a_stream_that_is_refused_before_its_first_row_stores_nothing(
    service: Service, client: Client, refused: dict[str, str], status: int, error: int
) -> None:
    answer = send(client, line(1), **refused)

    assert (answer.status, answer.json["error"]) == (status, error)
    assert stored_plants(service.database) == {}


def test_a_refused_coding_of_a_stream_is_answered_with_the_accepted_one(client: Client) -> None:
    answer = send(client, line(1), Content_Encoding="gzip")

    assert (answer.status, answer.headers["accept-encoding"]) == (415, "identity")


def test_a_client_that_stops_sending_gets_408_and_how_far_it_came(
    service: Service, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    wire.send(streaming_head(service.token()) + chunk(lines(1, 2_500)))

    status, _, body = wire.answer()

    assert (status, json.loads(body)["error"]) == (408, ErrorCode.REQUEST_TIMEOUT)
    assert json.loads(body)["lines_stored_through"] == 1_000
    assert len(stored_plants(service.database)) == 1_000


def test_a_stream_may_take_longer_than_a_request(
    service: Service, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    wire.send(streaming_head(service.token()))
    began = time.monotonic()
    sent = 0
    while time.monotonic() < began + 3:
        sent += 1
        wire.send(chunk(line(sent, "a" * 10_000)))
        time.sleep(0.1)
    wire.send(b"0\r\n\r\n")

    assert json.loads(wire.answer()[2])["stored"] == sent


@pytest.mark.engines("sqlite", "postgres")
def test_a_stream_whose_client_disconnects_leaves_whole_batches(
    service: Service, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    wire.send(streaming_head(service.token()) + chunk(lines(1, 3_500)))
    wait_until(lambda: len(stored_plants(service.database)) == 3_000)

    wire.close()

    with contextlib.closing(service.client(service.token(name="other"))) as client:
        assert send(client, lines(1, 3_500)).json["stored"] == 500


def test_batches_grow_until_there_is_a_single_change(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        wire, client = Wire(service.port), service.client(service.token())
        wire.send(streaming_head(service.token(name="stream")) + chunk(lines(1, 2_999)))
        wait_until(lambda: len(stored_plants(service.database)) == 1_000)
        client.post(NewPlant(10_000, "single"))
        before = len(stored_plants(service.database))

        wire.send(chunk(lines(3_000, 3_500)))

        wait_until(lambda: len(stored_plants(service.database)) == 3_501)
        wire.close()
        client.close()
    assert before == 1_001


def test_after_a_100_a_stream_is_sent_and_the_connection_is_kept(
    service: Service, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    token = service.token()
    wire.send(streaming_head(token, b"Expect: 100-continue"))
    assert wire.file.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert wire.file.readline() == b"\r\n"
    wire.send(chunk(line(1)) + b"0\r\n\r\n")
    assert wire.answer()[0] == 200

    wire.send(streaming_head(token) + chunk(line(2)) + b"0\r\n\r\n")

    assert json.loads(wire.answer()[2])["stored"] == 1


def test_imports_over_the_limit_are_503_and_a_place_is_free_after_one_ends(tmp_path: Path) -> None:
    with Service(tmp_path) as service, contextlib.ExitStack() as stack:
        first, second, third = (service.token(name=name) for name in "abc")

        def begin_import(token: str) -> Wire:
            wire = Wire(service.port)
            stack.callback(wire.close)
            wire.send(streaming_head(token, b"Expect: 100-continue"))
            assert wire.file.readline() == b"HTTP/1.1 100 Continue\r\n"
            assert wire.file.readline() == b"\r\n"
            return wire

        def import_one(token: str) -> Answer:
            with contextlib.closing(service.client(token)) as client:
                return send(client, line(1))

        of_first = [begin_import(first) for _ in range(IMPORTS_MAX * 3 // 4)]
        too_many_of_first = import_one(first)
        for _ in range(IMPORTS_MAX - len(of_first)):
            begin_import(second)
        too_many = import_one(third)
        with contextlib.closing(service.client(third)) as client:
            single = client.post(NewPlant(2, "a"))
        of_first[0].send(b"0\r\n\r\n")
        assert of_first[0].answer()[0] == 200
        accepted = import_one(third)

    for refused in (too_many_of_first, too_many):
        assert (refused.status, refused.json["error"]) == (503, ErrorCode.OVERLOADED)
    assert (single.status, accepted.status) == (200, 200)


def test_a_stream_ends_when_its_token_is_revoked(
    service: Service, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    wire.send(streaming_head(service.token(name="lost")) + chunk(lines(1, 1_500)))
    wait_until(lambda: len(stored_plants(service.database)) == 1_000)
    with opened(service.database) as store:
        store.revoke_token("lost", 1)

    send_until_refused(wire, chunk(lines(1_501, 2_500)))

    status, _, body = wire.answer()
    assert (status, json.loads(body)["error"]) == (401, ErrorCode.TOKEN_INVALID)
    assert json.loads(body)["lines_stored_through"] >= 1_000


def test_every_plant_of_a_stream_counts_against_the_rate_of_its_token(tmp_path: Path) -> None:
    with Service(tmp_path, "--rate-per-token", "1500/hour;700/minute") as service:
        client = service.client(service.token())
        first = send(client, lines(1, 600))
        second = send(client, lines(601, 1_000))
        client.close()

    assert (first.status, second.status) == (200, 429)
    assert second.json["lines_stored_through"] == 0
    assert len(stored_plants(service.database)) == 600


def test_rows_that_are_not_valid_count_like_valid_ones(tmp_path: Path) -> None:
    with Service(tmp_path, "--rate-per-token", "100/hour") as service:
        client = service.client(service.token())
        answers = [send(client, b"{}\n" * 40) for _ in range(2)]
        answers.append(send(client, b"{}\n" * 10 + line(1) * 5 + b"{}\n" * 6))
        client.close()

    assert [answer.status for answer in answers] == [200, 200, 429]
    assert stored_plants(service.database) == {}


def test_the_last_row_with_an_id_is_stored(service: Service, client: Client) -> None:
    rows = b"".join(line(7, f"{number}") for number in range(5_001))

    send(client, rows, query="?on-conflict=replace")

    assert stored_plants(service.database) == {7: NewPlant(7, "5000")}


def test_a_row_of_64_kib_is_stored_and_a_larger_one_refused(
    client: Client,
) -> None:
    fits = PLANT_BYTES_MAX - len(line(31, "").rstrip())
    rows = [lines(1, 30, 60_000), line(31, "a" * fits), line(32, "a" * (fits + 1)), line(33)]

    answer = send(client, b"".join(rows))

    assert (answer.json["stored"], answer.json["refused"]) == (32, 1)
    assert answer.json["errors"][0]["error"] == ErrorCode.BODY_TOO_LARGE


def test_a_stop_in_the_middle_of_a_stream_says_how_far_it_came(tmp_path: Path) -> None:
    with Service(tmp_path, "--stop-seconds", "1") as service:
        wire = Wire(service.port)
        wire.send(streaming_head(service.token()) + chunk(lines(1, 1_500)))
        wait_until(lambda: len(stored_plants(service.database)) == 1_000)
        service.process.send_signal(signal.SIGTERM)

        status, _, body = wire.answer()
        wire.close()

    assert (status, json.loads(body)["error"]) == (503, ErrorCode.STORE_UNAVAILABLE)
    assert json.loads(body)["lines_stored_through"] == 1_000
    assert len(stored_plants(service.database)) == 1_000


def test_a_stream_of_any_length_takes_bounded_memory(service: Service, client: Client) -> None:
    send(client, lines(1, 2_000, 1_000))
    before = peak_mib(service)

    answer = send(client, (lines(1, 2_000, 1_000) for _ in range(30)))

    assert answer.json["already_stored"] == 60_000
    assert peak_mib(service) - before < 30
