"""The feed of a running service: its streams, and a copy that follows it."""

import contextlib
import shutil
from pathlib import Path

import pytest

from plantstore.changes import Deletion, Upsert
from plantstore.plants import NewPlant
from support.command import call
from support.events import Stream
from support.example import copied, following
from support.postgres import wait_until
from support.service import Client, Service
from support.wire import get, slow_reader


def streams(client: Client) -> float:
    return client.total("plantstore_queue_waiting", queue="streams")


@pytest.mark.engines("sqlite", "postgres")
def test_a_stream_has_the_changes_of_requests_of_imports_and_of_commands(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        token = service.token()
        with (
            contextlib.closing(service.client(token)) as client,
            Stream(service.port, token) as stream,
        ):
            assert client.post(NewPlant(1, "a", "t")).status == 200
            assert client.send("DELETE", "/plants/1").status == 204
            rows = b"id,name\n2,b\n3,c\n"
            assert client.send("POST", "/plants.csv", rows, {"Content-Type": "text/csv"}).json
            (tmp_path / "more.csv").write_text("id,name\n4,d\n5,e\n")
            assert call(tmp_path, "import", "more.csv").returncode == 0
            service.change(Upsert(NewPlant(2, "other")))
            events = [next(stream.events) for _ in range(7)]
            exported = client.send("GET", "/plants.ndjson")

    assert [(event.kind, event.data["plant"]["id"]) for event in events] == [
        *(("created", 1), ("deleted", 1), ("created", 2), ("created", 3)),
        *(("created", 4), ("created", 5), ("replaced", 2)),
    ]
    assert events[-1].data["plant"] == {"id": 2, "name": "other"}
    assert exported.headers["changes-after"] == str(events[-1].id)


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


def test_a_client_that_does_not_read_its_stream_is_disconnected_and_its_place_is_free(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--request-seconds", "1") as service:
        token = service.token()
        with (
            contextlib.closing(service.client(token)) as client,
            slow_reader(service.port) as lazy,
        ):
            lazy.sendall(get("/changes", token, b"Accept: text/event-stream"))
            wait_until(lambda: streams(client) == 1)
            service.change(*(NewPlant(id_, "x" * 15_000) for id_ in range(800)))

            wait_until(lambda: streams(client) == 0)
            with Stream(service.port, token, "0") as again:
                ids = [next(again.events).data["plant"]["id"] for _ in range(200)]
            wait_until(lambda: streams(client) == 0)  # also after a client disconnects

    assert ids == list(range(200))


def test_the_example_keeps_a_copy_that_survives_kills_and_a_restore(tmp_path: Path) -> None:
    file = tmp_path / "copy.jsonl"
    with Service(tmp_path) as service:
        token = service.token()
        service.change(NewPlant(1, "Rosa × \u2028 damascena"), NewPlant(2, "b", "t"))
        with following(service.port, token, file):
            wait_until(lambda: len(copied(file)) == 2)
        service.change(Deletion(2), Upsert(NewPlant(1, "a")), NewPlant(3, "c"))
        with following(service.port, token, file):
            wait_until(lambda: copied(file) == [NewPlant(1, "a"), NewPlant(3, "c")])
            assert call(tmp_path, "backup", "copy.db").returncode == 0
            service.change(NewPlant(4, "lost"))
            wait_until(lambda: len(copied(file)) == 3)
    for database in tmp_path.glob("plants.db*"):
        database.unlink()
    shutil.move(tmp_path / "copy.db", tmp_path / "plants.db")

    with Service(tmp_path) as service:
        service.change(NewPlant(5, "later"))  # its number must not be that of the lost change
        with following(service.port, token, file):
            wait_until(
                lambda: copied(file) == [NewPlant(1, "a"), NewPlant(3, "c"), NewPlant(5, "later")]
            )
