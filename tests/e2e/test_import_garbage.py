"""Imports over HTTP of files that are no files of plants, in whole or in part."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from plantstore.changes import Deletion
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.flood import peak_mib
from support.service import Client, Service, stored_plants
from support.streams import MEDIA_TYPES, NONE, rendered, send

PLANTS = [NewPlant(1, "Abies"), NewPlant(2, "Rosa × damascena", "Rosa")]
ROW_BYTES_MAX = 1024 * 1024 + 1024

# Rows that are refused. The rows around them are stored.
ROWS = {
    "ndjson": {
        "garbage": (b"\x16\x03\x01\x00garbage", ErrorCode.NOT_JSON),
        "NUL": (b"\0", ErrorCode.NOT_JSON),
        "NUL in a name": (rb'{"id": 3, "name": "\u0000"}', ErrorCode.UNSTORABLE_TEXT),
        "lone surrogate": (rb'{"id": 3, "name": "\ud800"}', ErrorCode.UNSTORABLE_TEXT),
        "encoded surrogate": (b'{"id": 3, "name": "\xed\xa0\x80"}', ErrorCode.NOT_JSON),
        "CR between rows": (
            b'{"id": 3, "name": "a"}\r{"id": 4, "name": "b"}',
            ErrorCode.NOT_JSON,
        ),
        "too large": (
            b'{"id": 3, "name": "%b"}' % (b"a" * ROW_BYTES_MAX),
            ErrorCode.BODY_TOO_LARGE,
        ),
    },
    "csv": {
        "garbage": (b"\x16\x03\x01\x00garbage", ErrorCode.INVALID_PLANT),
        "NUL": (b"\0", ErrorCode.INVALID_PLANT),
        "NUL in a name": (b"3,\0,", ErrorCode.UNSTORABLE_TEXT),
        "encoded surrogate": (b"3,\xed\xa0\x80,", ErrorCode.UNSTORABLE_TEXT),
        "quote within a cell": (b'3,"a"b,', ErrorCode.INVALID_PLANT),
        "too large": (b"3,%b," % (b"a" * ROW_BYTES_MAX), ErrorCode.BODY_TOO_LARGE),
    },
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture(scope="module")
def client(running: Service) -> Iterator[Client]:
    with contextlib.closing(running.client(running.token())) as opened:
        yield opened


@pytest.fixture
def service(running: Service) -> Service:
    """Return the service, without plants."""
    running.change(*(Deletion(id_) for id_ in stored_plants(running.database)))
    return running


@pytest.mark.parametrize("position", [0, 1, 2], ids=["first", "middle", "last"])
@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form, rows in ROWS.items() for name in rows]
)
def test_a_row_of_garbage_is_refused_and_the_rows_around_it_are_stored(
    service: Service, client: Client, form: str, name: str, position: int
) -> None:
    row, code = ROWS[form][name]
    head = rendered(form, [])
    rows = [rendered(form, [plant]).removeprefix(head) for plant in PLANTS]
    rows.insert(position, row + b"\n" * (position < 2))

    answer = send(client, head + b"".join(rows), MEDIA_TYPES[form])

    counts = answer.json
    [error] = counts.pop("errors")
    assert (answer.status, counts) == (200, NONE | {"stored": 2, "refused": 1})
    assert (error["line"], error["error"]) == (head.count(b"\n") + position + 1, code)
    assert stored_plants(service.database) == {plant.id: plant for plant in PLANTS}


class File(NamedTuple):
    """A file, and its answer: the counts, and the lines of the errors."""

    content: bytes
    counts: dict[str, int]
    lines: list[int]


FILES = {
    "empty": ("ndjson", File(b"", {}, [])),
    "only blank lines": ("ndjson", File(b"\n \r\n\n", {}, [])),
    "byte order mark": ("ndjson", File(b'\xef\xbb\xbf{"id":1,"name":"a"}', {"stored": 1}, [])),
    "only a byte order mark": ("ndjson", File(b"\xef\xbb\xbf", {}, [])),
    "byte order mark in line 2": (
        "ndjson",
        File(
            b'{"id":1,"name":"a"}\n\xef\xbb\xbf{"id":2,"name":"b"}',
            {"stored": 1, "refused": 1},
            [2],
        ),
    ),
    "UTF-16": ("ndjson", File('{"id":1,"name":"a"}\n'.encode("utf-16"), {"refused": 2}, [1, 2])),
    "CSV": ("ndjson", File(b"id,name\r\n1,a\r\n", {"refused": 2}, [1, 2])),
    "CRLF": (
        "ndjson",
        File(b'{"id":1,"name":"a"}\r\n\r\n{"id":2}\r\n', {"stored": 1, "refused": 1}, [3]),
    ),
    "lines that end with CR": (
        "ndjson",
        File(b'{"id":1,"name":"a"}\r{"id":2,"name":"b"}\r', {"refused": 1}, [1]),
    ),
    "only a header": ("csv", File(b"id,name,tag\r\n", {}, [])),
    "only CR": ("csv", File(b"id,name\r1,a\r2,b\r", {"stored": 2}, [])),
    "header with byte order mark": ("csv", File(b"\xef\xbb\xbfid,name\n1,a\n", {"stored": 1}, [])),
    "quote that never closes": (
        "csv",
        File(b'id,name\n1,a\n2,"b\n3,c\n4,d', {"stored": 3, "refused": 1}, [3]),
    ),
    "quote that never closes in the last line": (
        "csv",
        File(b'id,name\n1,a\n2,"b', {"stored": 1, "refused": 1}, [3]),
    ),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.usefixtures("service")
def test_a_file_with_hardly_a_row_is_read_to_its_end(client: Client, name: str) -> None:
    form, file = FILES[name]

    answer = send(client, file.content, MEDIA_TYPES[form])

    counts = answer.json
    errors = counts.pop("errors")
    assert (answer.status, counts) == (200, NONE | file.counts)
    assert [each["line"] for each in errors] == file.lines


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xef\xbb\xbf",
        b"\0",
        b"\n",
        b'{"id":1,"name":"a"}\n',
        b'"id,name\n1,a\n',
        b"\xff\xfei\0d\0",
        b"name,tag\n1,a\n",
        b"x" * 3_000_000,
    ],
    ids=["empty", "BOM", "NUL", "blank", "JSON", "quote", "UTF-16", "no id", "too large"],
)
def test_a_csv_file_without_a_header_is_refused_whole(
    service: Service, client: Client, content: bytes
) -> None:
    answer = send(client, content, MEDIA_TYPES["csv"])

    assert (answer.status, answer.json["error"]) == (400, ErrorCode.INVALID_PLANT)
    assert answer.json["lines_stored_through"] == 0
    assert stored_plants(service.database) == {}


@pytest.mark.parametrize(
    ("form", "beginning", "piece"),
    [
        ("csv", b'id,name\n1,a\n2,"', b"no end\n" * 10_000),
        ("csv", b'id,name\n1,a\n2,"', b'a","c\n' * 10_000),
        ("csv", b"id,name\n1,a\n2,", b"no end" * 10_000),
        ("ndjson", b'{"id":1,"name":"a"}\n{"id":2,"name":"', b"no end" * 10_000),
    ],
    ids=["open quote", "open quote in each line", "open line", "open name"],
)
def test_a_row_without_an_end_is_refused_with_bounded_memory(
    service: Service, client: Client, form: str, beginning: bytes, piece: bytes
) -> None:
    send(client, [beginning, *[piece] * 20], MEDIA_TYPES[form])
    before = peak_mib(service)

    answer = send(client, [beginning, *[piece] * 100], MEDIA_TYPES[form])

    assert answer.status == 200
    assert (answer.json["stored"], answer.json["already_stored"]) == (0, 1)
    assert answer.json["refused"] >= 1
    assert stored_plants(service.database) == {1: NewPlant(1, "a")}
    assert peak_mib(service) - before < 10
