"""A service that still runs after a newer version has migrated its database."""

from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from support.other_programs import engine_of, set_version
from support.service import serving, stored_plants

# More than there are log lines about them in any case.
REQUESTS = 60


@pytest.mark.engines("sqlite", "postgres")
def test_a_service_of_an_older_version_stores_nothing_after_a_migration_and_says_why(
    tmp_path: Path, database: str
) -> None:
    newer = newest_version(engine_of(database)) + 1
    plant, other = NewPlant(1, "Abies", "a"), NewPlant(2, "Abies alba")
    with serving(tmp_path) as (service, client):
        assert client.post(plant).status == 200
        set_version(database, newer)

        refused = [client.post(other) for _ in range(REQUESTS)]
        ready = client.send("GET", "/readyz")
        ids = client.send("POST", "/ids")
        deleted = client.send("DELETE", "/plants/1")
        read = client.send("GET", "/plants/1")
        found = client.send("GET", "/plants?q=ab", headers={"Prefer": "count=exact"})

        said = "its schema is of another version of the Plant Store"
        for answer, outcome in (
            *((answer, "nothing was done") for answer in (*refused, deleted)),
            (ids, "no id was handed out"),
        ):
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            message = f"The database cannot be written: {said}; {outcome}"
            assert answer.json == {"error": 5003, "message": message}
        assert (ready.status, ready.json["error"]) == (503, 5003)
        assert said in ready.json["message"]
        assert read.json == {"id": 1, "name": "Abies", "tag": "a"}
        assert [found.json, found.headers["total-count"]] == [[read.json], "1"]
        set_version(database, newer - 1)
        assert client.post(NewPlant(3, "Acer")).status == 200

    assert stored_plants(database) == {1: plant, 3: NewPlant(3, "Acer")}
    lines = [line for line in service.log if "commit failed" in line]
    assert f"the schema has version {newer}, and this process knows version {newer - 1}" in lines[0]
    assert "restart this process with the installed version" in lines[0]
    assert len(lines) < REQUESTS / 2
    assert any("not ready" in line and f"version {newer}" in line for line in service.log)
