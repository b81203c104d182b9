"""The feed of a running service, and undos by the command."""

import contextlib
import re
from pathlib import Path

import pytest

from plantstore.changes import Upsert
from plantstore.plants import NewPlant
from support.command import call
from support.events import Stream
from support.service import Service, opened, serving, stored_plants

ROWS = "id,name,tag\n1,b,t\n2,c,\n3,d,u\n"


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
        undone = call(tmp_path, "undo", name)
        again = client.send("POST", f"/undo?set={name}")

    said = "1 restored, {} deleted, 0 stored again, {} kept, because they were changed since\n"
    assert after == {1: NewPlant(1, "b", "t"), 2: NewPlant(2, "c"), 3: NewPlant(3, "d", "u")}
    assert unchanged == after
    assert (tried.returncode, tried.stdout) == (0, "Dry run: " + said.format(2, 0))
    assert (undone.returncode, undone.stdout, undone.stderr) == (0, said.format(1, 1), "")
    assert (again.json["deleted"], again.json["kept"]) == (1, 1)
    assert stored_plants(database) == {1: NewPlant(1, "a"), 3: NewPlant(3, "other")}


def test_an_import_that_changes_nothing_or_is_not_recorded_prints_no_undo(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")
    with opened(database) as store:
        store.keep_changes(7)
        store.apply_changes([NewPlant(1, "b", "t"), NewPlant(2, "c"), NewPlant(3, "d", "u")])

    again = call(tmp_path, "import", "plants.csv")
    unknown = call(tmp_path, "undo", "no-such-set-0123")
    with opened(database) as store:
        store.keep_changes(0)
    (tmp_path / "plants.csv").write_text("id,name\n4,e\n", encoding="utf-8")
    off = call(tmp_path, "import", "plants.csv")
    refused = call(tmp_path, "undo", "no-such-set-0123")

    assert (again.stderr, off.stderr) == ("", "")
    assert off.stdout.startswith("1 stored")
    assert unknown.stderr == "plantstore: No change set has this name\n"
    assert (unknown.returncode, refused.returncode, refused.stdout) == (1, 1, "")
    assert "--changes-keep 0" in refused.stderr
