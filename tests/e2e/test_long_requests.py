"""Requests that last, against the real server: exports, imports and streams of changes."""

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.changes import InSet, Outcome, Upsert
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.command import call
from support.events import Stream
from support.postgres import wait_until
from support.service import Service, opened, serving, stored_plants
from support.streams import MEDIA_TYPES, lines, streaming_head
from support.wire import Wire, chunk, send_until_refused


@pytest.mark.parametrize(("form", "media_type"), MEDIA_TYPES.items())
def test_an_export_has_the_bytes_that_the_command_writes(
    tmp_path: Path, form: str, media_type: str
) -> None:
    with serving(tmp_path) as (service, client):
        service.change(
            NewPlant(-7, 'Rosa "×", damascena\n'),
            *(NewPlant(number, f"Abies {number}", "Abies") for number in range(2_500)),
        )
        head = client.send("HEAD", f"/plants.{form}")
        answer = client.send("GET", f"/plants.{form}", headers={"Accept": "application/json"})
        of_tag = client.send("GET", "/plants.csv?tag=none")
    call(tmp_path, "export", f"expected.{form}")

    assert answer.status == 200
    assert answer.body == (tmp_path / f"expected.{form}").read_bytes()
    assert answer.headers["content-type"].split(";")[0] == media_type
    assert answer.headers["content-disposition"] == f'attachment; filename="plants.{form}"'
    assert answer.headers["cache-control"] == "no-store"
    assert of_tag.body == b"id,name,tag\r\n"
    # A HEAD reads no snapshot, so it has no number of the feed (RFC 9110 §9.3.2).
    varying = {"date": "", "transfer-encoding": "", "changes-after": ""}
    assert head.headers | varying == answer.headers | varying


# Imports that end early.

MIB = 1024 * 1024


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
    wire.send(streaming_head(token) + chunk(body))
    return wire


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


# The feed, and undos by the command.

ROWS = "id,name,tag\n1,b,t\n2,c,\n3,d,u\n"


@pytest.mark.engines("sqlite", "postgres")
def test_a_shutdown_ends_the_streams_at_once_and_their_clients_miss_nothing(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--stop-seconds", "3600") as service:
        token = service.token()
        with Stream(service.port, token) as stream:
            service.change(NewPlant(1, "a"))
            last = next(stream.events).id
            service.stop()
            assert list(stream.events) == []
    service.change(NewPlant(2, "b"))

    with (
        Service(tmp_path) as service,
        Stream(service.port, token, Last_Event_ID=str(last)) as more,
    ):
        assert next(more.events).data["plant"] == {"id": 2, "name": "b"}


def set_in(said: str) -> str:
    """Return the name of the set in the output of an import."""
    [name] = re.findall(r"^To undo: plantstore undo (\S+)", said, re.MULTILINE)
    return str(name)


@pytest.mark.engines("sqlite", "postgres")
def test_an_import_prints_how_to_undo_it_and_its_undo_beside_a_service_gives_all_plants_back(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")
    with serving(tmp_path) as (service, client):
        service.change(NewPlant(1, "a"))
        imported = call(tmp_path, "import", "plants.csv", "--on-conflict", "replace")
        after = stored_plants(database)
        name = set_in(imported.stderr)

        tried = call(tmp_path, "undo", name, "--dry-run")
        unchanged = stored_plants(database)
        service.change(Upsert(NewPlant(3, "other")))
        with opened(database) as store:
            late = store.apply_changes([InSet(NewPlant(9, "late"), name)])
        undone = call(tmp_path, "undo", name)
        again = client.send("POST", f"/undo?set={name}")

    said = "1 restored, {} deleted, 0 stored again, {} kept, because they were changed since\n"
    assert after == {1: NewPlant(1, "b", "t"), 2: NewPlant(2, "c"), 3: NewPlant(3, "d", "u")}
    assert unchanged == after
    assert (tried.returncode, tried.stdout) == (0, "Dry run: " + said.format(2, 0))
    assert (undone.returncode, undone.stdout, undone.stderr) == (0, said.format(1, 1), "")
    assert (again.json["deleted"], again.json["kept"]) == (1, 1)
    assert late == [Outcome.SET_CLOSED]
    assert stored_plants(database) == {1: NewPlant(1, "a"), 3: NewPlant(3, "other")}
