"""`plantstore backup`, `check` and `reindex`, on real files and beside a running service."""

import contextlib
import re
import signal
import subprocess
from pathlib import Path

import apsw
import pytest

from plantstore.listings import Count, Listing
from plantstore.plants import NewPlant
from support.command import call, run
from support.damaged_pages import empty_root
from support.load import Load
from support.postgres import wait_until
from support.service import PLANTSTORE, Service, opened, stored_plants


def test_a_backup_under_load_is_intact_and_has_every_plant_acknowledged_before_it(
    tmp_path: Path,
    database: str,
) -> None:
    with opened(database) as store:
        for start in range(-5_000, 0, 500):  # enough bytes for a backup in several steps
            store.apply_changes([NewPlant(start + n, "x" * 10_000) for n in range(500)])
    with Service(tmp_path) as service:
        token = service.token()
        load = Load(service, token, 0)
        load.wait_for_more(200)
        before = dict(load.acknowledged)

        done = run(tmp_path, "backup", "copy.db")

        during = len(load.acknowledged)
        load.wait_for_more(1)
        sent = dict(load.sent)
        service.stop()
        load.join()

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("The copy has no errors\n")
    assert not load.refused
    copied = stored_plants(f"sqlite:///{tmp_path}/copy.db")  # this also checks the integrity
    assert before.items() <= copied.items()
    assert {id_: plant for id_, plant in copied.items() if id_ >= 0}.items() <= sent.items()
    assert sum(id_ < 0 for id_ in copied) == 5_000
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600, "the copy contains the tokens"
    assert len(before) < during, "the service stored no plants while the backup ran"
    with (
        Service(tmp_path, "--database", "sqlite:///copy.db") as service,
        service.client(token) as client,
    ):
        assert client.send("GET", "/plants/-1").status == 200


@pytest.mark.parametrize(
    ("target", "there", "said"),
    [
        ("copy.db", ["copy.db-wal"], "copy.db-wal exists: copy.db is in use"),
        ("copy.db", ["copy.db-journal"], "copy.db-journal exists: copy.db is in use"),
        ("no/copy.db", [], "plantstore: /"),
        (".", [], "plantstore: /"),
    ],
)
def test_a_backup_to_an_impossible_path_is_a_one_line_error_and_changes_nothing(
    tmp_path: Path, database: str, target: str, there: list[str], said: str
) -> None:
    """SQLite would replay the log of another database into the copy."""
    with opened(database):
        pass
    for name in there:
        (tmp_path / name).write_bytes(b"changes of another database")

    done = call(tmp_path, "backup", target, "--force")

    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [*there, "plants.db"]


def test_a_check_and_a_backup_of_a_corrupt_database_fail_and_leave_no_copy(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(id_, "x" * 100, f"{id_}") for id_ in range(1000)])
    empty_root(tmp_path / "plants.db", "plant_words_data")

    checked = call(tmp_path, "check")
    copied = call(tmp_path, "backup", "copy.db")

    assert checked.returncode == copied.returncode == 1
    assert checked.stdout == "Plants: 1,000, tokens: 0, schema: 7\n"
    assert "plant_words" in checked.stderr
    assert "The copy has errors" in copied.stderr
    assert not (tmp_path / "copy.db").exists()


def test_a_check_names_reindex_which_repairs_the_index_beside_a_service_also_after_kill_9(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        for start in range(-10_000, 0, 2_000):
            store.apply_changes([NewPlant(start + n, "Abies alba") for n in range(2_000)])
    with contextlib.closing(apsw.Connection(str(tmp_path / "plants.db"))) as connection:
        connection.execute("UPDATE plants SET name = 'Rosa nigra'")
        connection.execute("UPDATE totals SET plants = plants + 7")
    with Service(tmp_path) as service:
        load = Load(service, service.token(), 0)
        load.wait_for_more(50)
        found = call(tmp_path, "check")

        with opened(database) as store:
            command = subprocess.Popen([*PLANTSTORE, "reindex"], cwd=tmp_path)
            rosa = Listing(limit=1, words=("rosa",), has_total=True)
            wait_until(lambda: store.list_plants(rosa).total != Count(0))
            command.kill()
        status = command.wait(60)
        again = call(tmp_path, "reindex")

        load.wait_for_more(1)
        service.stop()
        load.join()

    assert found.returncode == 1
    assert found.stderr.count("; run `plantstore reindex`\n") == 2
    assert status == -signal.SIGKILL
    assert (again.returncode, again.stderr) == (0, "")
    assert re.fullmatch(
        r"Plants whose index was wrong, and is right now: [\d,]+\n"
        r"Plants missing in the recorded number, which is right now: (0|-\d+)\n",
        again.stdout,
    )
    assert not load.refused
    stored = stored_plants(database)  # this also checks the index and the number
    assert load.acknowledged.items() <= stored.items()
    assert sum(plant.name == "Rosa nigra" for plant in stored.values()) == 10_000
