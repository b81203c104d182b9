"""`POST /plants.csv` and `POST /plants.ndjson`: the rows of an import, against the real server."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.api.imports import IMPORTS_MAX
from plantstore.changes import Deletion
from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.csv_cases import CSV_CASES
from support.postgres import wait_until
from support.service import Answer, Client, Service, stored_plants
from support.streams import (
    CSV,
    NDJSON,
    NONE,
    chunk,
    import_once,
    line,
    lines,
    rendered,
    send,
    streaming_head,
)
from support.wire import Wire


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


def test_an_import_of_csv_has_the_warning_and_the_refused_rows_of_the_parser(
    service: Service, client: Client
) -> None:
    warned = next(case for case in CSV_CASES if case.warning)
    refused = next(case for case in CSV_CASES if case.refused)

    first, second = (send(client, case.content, CSV).json for case in (warned, refused))

    assert first["warnings"] == [warned.warning]
    assert [each["line"] for each in second["errors"]] == [number for number, _ in refused.refused]
    stored = {plant.id: plant for case in (refused, warned) for plant in case.plants}
    assert stored_plants(service.database) == stored


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


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_file_without_a_column_of_tags_keeps_the_stored_tags_and_an_empty_cell_removes_one(
    tmp_path: Path, workers: str
) -> None:
    """With two workers, another process writes."""
    with Service(tmp_path, "--workers", workers) as service:
        service.change(NewPlant(1, "old", "kept"), NewPlant(2, "same", "t"), NewPlant(3, "c", "t"))
        with service.client(service.token()) as client:
            without, with_tags, whole = (
                send(client, body, media_type, query="?on-conflict=replace").json
                for body, media_type in (
                    (b"id;name\n1;new\n2;same\n4;d\n", CSV),
                    (b"id,name,tag\n3,c,\n", CSV),
                    (line(2, "same"), NDJSON),
                )
            )
        stored = stored_plants(service.database)

    assert without == NONE | {"stored": 1, "already_stored": 1, "replaced": 1, "errors": []}
    assert with_tags == whole == NONE | {"replaced": 1, "errors": []}
    assert list(stored.values()) == [
        *(NewPlant(1, "new", "kept"), NewPlant(2, "same"), NewPlant(3, "c"), NewPlant(4, "d"))
    ]


def test_a_row_that_is_too_large_with_the_tag_that_it_keeps_is_refused(
    service: Service, client: Client
) -> None:
    client.post(large := NewPlant(1, "a", "x" * 40_000))

    body = b"id,name\n1,%b\n2,b\n" % (b"y" * 40_000)
    answer = send(client, body, CSV, query="?on-conflict=replace")

    assert (answer.status, answer.json["stored"], answer.json["refused"]) == (200, 1, 1)
    assert answer.json["errors"][0]["error"] == ErrorCode.BODY_TOO_LARGE
    assert stored_plants(service.database) == {1: large, 2: NewPlant(2, "b")}


@pytest.mark.parametrize("media_type", [CSV, NDJSON])
def test_a_file_in_utf_16_stores_nothing_and_one_that_is_partly_no_utf_8_has_one_advice(
    service: Service, client: Client, media_type: str
) -> None:
    form = "csv" if media_type == CSV else "ndjson"
    good = rendered(form, [NewPlant(1, "ä"), NewPlant(2, "ö"), NewPlant(3, "b")])

    refused = send(client, good.decode().encode("utf-16"), media_type)
    stored = stored_plants(service.database)
    partly = send(
        client, good.replace("ä".encode(), b"\xe4").replace("ö".encode(), b"\xf6"), media_type
    )

    assert (refused.status, refused.json["lines_stored_through"], stored) == (400, 0, {})
    assert "UTF-16, not UTF-8: save it as UTF-8" in refused.json["message"]
    assert (partly.status, partly.json["stored"], partly.json["refused"]) == (200, 1, 2)
    [advice] = partly.json["warnings"]
    assert advice.startswith("A part of the file is not UTF-8: save it as UTF-8")


def test_a_row_of_64_kib_is_stored_and_a_larger_one_refused(client: Client) -> None:
    fits = PLANT_BYTES_MAX - len(line(31, "").rstrip())
    rows = [lines(1, 30, 60_000), line(31, "a" * fits), line(32, "a" * (fits + 1)), line(33)]

    answer = send(client, b"".join(rows))

    assert (answer.json["stored"], answer.json["refused"]) == (32, 1)
    assert answer.json["errors"][0]["error"] == ErrorCode.BODY_TOO_LARGE


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
        ({"query": "?on-conflict=merge"}, 400, ErrorCode.INVALID_PARAMETER),
        ({"query": "?onconflict=skip"}, 400, ErrorCode.INVALID_PARAMETER),
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

    assert (answer.status, answer.json["error"]) == (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert answer.headers["accept-encoding"] == "identity"


def test_a_csv_file_without_a_header_is_refused_whole(service: Service, client: Client) -> None:
    answer = send(client, b'"id,name\n1,a\n', CSV)

    assert (answer.status, answer.json["error"]) == (400, ErrorCode.INVALID_PLANT)
    assert answer.json["lines_stored_through"] == 0
    assert stored_plants(service.database) == {}


def test_after_a_100_a_stream_is_sent_and_the_connection_is_kept(
    service: Service, token: str
) -> None:
    with begun_import(service, token) as wire:
        wire.send(chunk(line(1)) + b"0\r\n\r\n")
        assert wire.answer()[0] == 200

        wire.send(streaming_head(token) + chunk(line(2)) + b"0\r\n\r\n")

        assert json.loads(wire.answer()[2])["stored"] == 1


def begun_import(service: Service, token: str) -> Wire:
    """Begin an import; return when the service asks for its body."""
    wire = Wire(service.port)
    wire.send(streaming_head(token, b"Expect: 100-continue"))
    assert wire.file.readline() == b"HTTP/1.1 100 Continue\r\n"
    assert wire.file.readline() == b"\r\n"
    return wire


def test_imports_over_the_limit_are_503_and_a_place_is_free_after_one_ends(
    service: Service,
) -> None:
    first, second, third = (service.token(name=name) for name in "abc")
    places_of_one = IMPORTS_MAX * 3 // 4
    with contextlib.ExitStack() as stack:

        def begin(token: str) -> Wire:
            return stack.enter_context(begun_import(service, token))

        of_first = [begin(first) for _ in range(places_of_one)]
        too_many_of_first = import_once(service, first, line(1))
        for _ in range(IMPORTS_MAX - places_of_one):
            begin(second)
        too_many = import_once(service, third, line(1))
        with service.client(third) as client:
            single = client.post(NewPlant(2, "a"))
        of_first[0].send(b"0\r\n\r\n")
        assert of_first[0].answer()[0] == 200
        accepted = import_once(service, third, line(1))

    for refused in (too_many_of_first, too_many):
        assert (refused.status, refused.json["error"]) == (503, ErrorCode.OVERLOADED)
    assert (single.status, accepted.status) == (200, 200)


def test_batches_grow_until_there_is_a_single_change(
    service: Service, token: str, client: Client
) -> None:
    with Wire(service.port) as wire:
        wire.send(streaming_head(token) + chunk(lines(1, 2_999)))
        wait_until(lambda: len(stored_plants(service.database)) == 1_000)
        client.post(NewPlant(10_000, "single"))
        before = len(stored_plants(service.database))

        wire.send(chunk(lines(3_000, 3_500)))

        wait_until(lambda: len(stored_plants(service.database)) == 3_501)
    assert before == 1_001


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Return a service whose tokens may be used 8 times, so that batches have 4 rows.

    The rates are per day, so that no test depends on how long it takes.
    """
    rates = ("--rate-per-token", "12/day;8/2 days")
    with Service(tmp_path_factory.mktemp("limited"), *rates) as service:
        yield service


def use_once(client: Client) -> Answer:
    return client.post(NewPlant(100, "a"))


def refuse_six_rows(client: Client) -> Answer:
    return send(client, b"{}\n" * 6)


@pytest.mark.parametrize(
    ("uses", "body", "status", "through"),
    [
        pytest.param([], lines(1, 8), 200, 8, id="as many rows as uses"),
        pytest.param([], lines(1, 12), 429, 8, id="no larger batch than half of the rate"),
        pytest.param([use_once], lines(1, 8), 429, 4, id="half of the smallest rate"),
        pytest.param([use_once], lines(1, 9), 429, 4, id="no batch after a refused one"),
        pytest.param(
            [refuse_six_rows], b"{}\n{}\n" + line(3), 429, 0, id="rows that are not valid"
        ),
    ],
)
def test_no_row_after_a_batch_that_is_refused_is_stored(
    limited: Service,
    uses: list[Callable[[Client], Answer]],
    body: bytes,
    status: int,
    through: int,
) -> None:
    limited.change(*(Deletion(id_) for id_ in stored_plants(limited.database)))
    token = limited.token(name=f"{time.monotonic_ns()}")
    with limited.client(token) as client:
        before = [use(client).status for use in uses]

        answer = send(client, body)
        after = client.post(NewPlant(100, "a"))

    assert before == [200] * len(uses)
    assert (answer.status, answer.json.get("lines_stored_through", 8)) == (status, through)
    assert stored_plants(limited.database).keys() - {100} == set(range(1, through + 1))
    assert (after.status == 429) is (through == 8)
