"""`GET /plants.csv` and `GET /plants.ndjson`, against the real server."""

import contextlib
import gzip
import json
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.api.exports import EXPORTS_MAX
from plantstore.changes import Upsert
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.command import run
from support.measured import open_logs
from support.postgres import wait_until
from support.service import Client, Service, opened, stored_plants
from support.streams import HARD_PLANTS, import_once
from support.wire import Wire

CSV = "/plants.csv"
NDJSON = "/plants.ndjson"
FILES = {"csv": "text/csv", "ndjson": "application/x-ndjson"}
PLANTS = [
    NewPlant(-7, 'Rosa "×", damascena\n'),
    *(NewPlant(number, f"Abies {number}", "Abies") for number in range(2_500)),
    NewPlant(3_000, "Quercus robur L.", "Quercus"),
]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, "--request-seconds", "1") as running:
        running.change(*PLANTS)
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with contextlib.closing(service.client(service.token())) as opened:
        yield opened


@pytest.mark.parametrize(("form", "media_type"), FILES.items())
def test_an_export_has_the_bytes_that_the_command_writes(
    service: Service, client: Client, form: str, media_type: str
) -> None:
    answer = client.send("GET", f"/plants.{form}", headers={"Accept": "application/json"})

    run(service.folder, "export", f"expected.{form}")
    assert answer.status == 200
    assert answer.body == (service.folder / f"expected.{form}").read_bytes()
    assert answer.headers["content-type"] == media_type
    assert answer.headers["content-disposition"] == f'attachment; filename="plants.{form}"'
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("accept", ["text/csv", "application/x-ndjson", "image/png"])
def test_a_page_is_json_whatever_the_client_accepts(client: Client, accept: str) -> None:
    answer = client.send("GET", "/plants?limit=2", headers={"Accept": accept})

    assert answer.headers["content-type"] == "application/json"
    assert [plant["id"] for plant in answer.json] == [-7, 0]


def test_an_export_may_be_of_one_tag_and_compressed(client: Client) -> None:
    answer = client.send("GET", f"{NDJSON}?tag=Quercus", headers={"Accept-Encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.body)) == {
        "id": 3_000,
        "name": "Quercus robur L.",
        "tag": "Quercus",
    }


def test_csv_of_a_tag_does_not_depend_on_plants_with_an_empty_tag(
    service: Service, client: Client
) -> None:
    service.change(NewPlant(4_000, "Nameless", ""))

    refused = client.send("GET", CSV)
    answer = client.send("GET", f"{CSV}?tag=Quercus")

    assert (refused.status, refused.json["error"]) == (406, ErrorCode.NOT_ACCEPTABLE)
    assert answer.body == b"id,name,tag\r\n3000,Quercus robur L.,Quercus\r\n"


def test_an_export_of_an_empty_store_has_only_the_header(tmp_path: Path) -> None:
    with (
        Service(tmp_path) as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        assert client.send("GET", CSV).body == b"id,name,tag\r\n"
        assert client.send("GET", NDJSON).body == b""


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize(("form", "media_type"), FILES.items())
def test_an_export_is_imported_into_another_store_and_exported_again_with_the_same_bytes(
    service: Service, client: Client, new_database: Callable[[], str], form: str, media_type: str
) -> None:
    path = f"/plants.{form}"
    service.change(*map(Upsert, HARD_PLANTS))
    exported = client.send("GET", path).body

    with Service(service.folder, database=new_database()) as other:
        token = other.token()
        stored = import_once(other, token, exported, media_type)
        with contextlib.closing(other.client(token)) as reader:
            again = reader.send("GET", path).body

    run(service.folder, "export", f"expected.{form}")
    assert stored.json["stored"] == len(stored_plants(service.database))
    assert again == exported == (service.folder / f"expected.{form}").read_bytes()


def test_the_head_of_an_export_is_that_of_the_response_without_a_length(client: Client) -> None:
    head = client.send("HEAD", CSV).headers
    got = client.send("GET", CSV).headers

    assert head | {"date": "", "transfer-encoding": ""} == got | {
        "date": "",
        "transfer-encoding": "",
    }


@pytest.mark.parametrize("query", ["?limit=5", "?after=5", "?x=1"])
def test_an_export_takes_no_other_parameters(client: Client, query: str) -> None:
    answer = client.send("GET", f"{CSV}{query}")

    assert (answer.status, answer.json["error"]) == (400, ErrorCode.INVALID_PARAMETER)


def test_an_export_needs_the_scope_to_read(service: Service) -> None:
    with contextlib.closing(service.client(service.token("plants:create", name="c"))) as client:
        answer = client.send("GET", CSV)

    assert (answer.status, answer.json["error"]) == (403, ErrorCode.SCOPE_MISSING)


def test_a_client_that_stops_reading_an_export_is_disconnected_and_its_snapshot_closed(
    service: Service, connect: Callable[[], Wire]
) -> None:
    service.change(*(NewPlant(number, "x" * 100_000) for number in range(10_000, 10_400)))
    token = service.token(name="reader")
    snapshots = open_logs(service)
    wire = connect()
    wire.send(export_head(token))
    assert wire.file.readline() == b"HTTP/1.1 200 OK\r\n"
    assert open_logs(service) == snapshots + 1

    wait_until(lambda: open_logs(service) == snapshots)


def test_a_client_that_reads_slower_than_the_service_gets_the_whole_export(
    service: Service, connect: Callable[[], Wire]
) -> None:
    service.change(*(NewPlant(number, "x" * 100_000) for number in range(10_000, 10_400)))
    wire = connect()
    wire.send(export_head(service.token(name="reader")))
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        piece = wire.socket.recv(100_000)
        assert piece, "the connection was closed before the end"
        received = received[-5:] + piece
        time.sleep(0.01)  # for some seconds in total; a request may take one


def test_a_stop_cuts_off_an_export_whose_client_reads_slowly(tmp_path: Path) -> None:
    with Service(tmp_path, "--stop-seconds", "1") as service:
        service.change(*(NewPlant(number, "x" * 100_000) for number in range(400)))
        wire = Wire(service.port)
        wire.send(export_head(service.token()))
        assert wire.file.readline() == b"HTTP/1.1 200 OK\r\n"

        service.process.send_signal(signal.SIGTERM)

        received = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := wire.file.read1(100_000):
                received = received[-5:] + piece
                time.sleep(0.02)  # a slow client
        wire.close()
        assert service.process.wait(60) == 0

    assert not received.endswith(b"0\r\n\r\n")
    assert not any("failed" in line or "Traceback" in line for line in service.log)


def test_an_export_needs_http_1_1(service: Service, connect: Callable[[], Wire]) -> None:
    wire = connect()
    wire.send(export_head(service.token(name="old")).replace(b"HTTP/1.1", b"HTTP/1.0"))

    assert wire.answer()[0] == 400


def test_an_export_that_takes_too_long_is_cut_off(tmp_path: Path) -> None:
    with Service(tmp_path, "--export-seconds-max", "1") as service:
        service.change(*(NewPlant(number, "x" * 100_000) for number in range(400)))
        wire = Wire(service.port)
        wire.send(export_head(service.token()))
        received = b""
        while piece := wire.file.read(100_000):
            received = received[-5:] + piece
            time.sleep(0.02)  # a slow client
        wire.close()
        wait_until(lambda: any("export cut off" in line for line in service.log))

    assert not received.endswith(b"0\r\n\r\n")


def test_exports_over_the_limit_are_503(service: Service, connect: Callable[[], Wire]) -> None:
    service.change(*(NewPlant(number, "x" * 100_000) for number in range(10_000, 10_400)))
    first, second, third = (service.token(name=name) for name in "abc")

    def begin_export(token: str) -> Wire:
        wire = connect()
        wire.send(export_head(token))
        return wire

    of_first = EXPORTS_MAX * 3 // 4
    for token in [first] * of_first + [second] * (EXPORTS_MAX - of_first):
        assert begin_export(token).file.readline() == b"HTTP/1.1 200 OK\r\n"
    for token in (first, third):
        status, _, body = begin_export(token).answer()
        assert (status, json.loads(body)["error"]) == (503, ErrorCode.OVERLOADED)


def test_an_export_ends_when_its_token_is_revoked(
    service: Service, connect: Callable[[], Wire]
) -> None:
    service.change(*(NewPlant(number, "x" * 100_000) for number in range(10_000, 10_400)))
    wire = connect()
    token = service.token(name="lost")
    wire.send(export_head(token))
    assert wire.file.readline() == b"HTTP/1.1 200 OK\r\n"
    with opened(service.database) as store:
        store.revoke_token("lost", 1)
    with contextlib.closing(service.client(token)) as client:
        wait_until(lambda: client.send("GET", "/plants?limit=1").status == 401)

    received = wire.file.read()

    assert not received.endswith(b"0\r\n\r\n")
    wait_until(lambda: any("The token is revoked" in line for line in service.log))


def export_head(token: str) -> bytes:
    return (
        b"GET /plants.ndjson HTTP/1.1\r\nHost: x\r\n"
        b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
    )
