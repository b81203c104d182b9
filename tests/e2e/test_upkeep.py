"""`plantstore backup`, `check` and `reindex`, on real files and beside a running service."""

import contextlib
import re
import resource
import signal
import subprocess
from pathlib import Path

import apsw
import pytest

from plantstore.listings import Count, Listing
from plantstore.plants import NewPlant
from support.command import run
from support.damaged_pages import empty_root
from support.load import Load
from support.postgres import execute, wait_until
from support.service import PLANTSTORE, Service, opened, stored_plants


def test_a_backup_under_load_is_intact_and_has_every_plant_acknowledged_before_it(
    tmp_path: Path,
    database: str,
) -> None:
    with opened(database) as store:
        for start in range(-100_000, 0, 10_000):  # enough plants for a backup in several steps
            store.apply_changes([NewPlant(start + n, "x" * 500) for n in range(10_000)])
    with Service(tmp_path) as service:
        load = Load(service, service.token(), 0)
        load.wait_until(lambda: len(load.acknowledged) >= 500)
        before = dict(load.acknowledged)

        done = run(tmp_path, "backup", "copy.db")

        during = len(load.acknowledged)
        load.wait_until(lambda: len(load.acknowledged) > during)
        sent = dict(load.sent)
        service.stop()
        load.join()

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("The copy has no errors\n")
    assert not load.refused
    copied = stored_plants(f"sqlite:///{tmp_path}/copy.db")  # this also checks the integrity
    assert before.items() <= copied.items()
    assert {id_: plant for id_, plant in copied.items() if id_ >= 0}.items() <= sent.items()
    assert sum(id_ < 0 for id_ in copied) == 100_000
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600, "the copy contains the tokens"
    assert len(before) < during, "the service stored no plants while the backup ran"


def test_a_service_can_run_on_a_backup(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        token = service.token()
        client = service.client(token)
        assert client.post(NewPlant(1, "a")).status == 200
        client.close()
        assert run(tmp_path, "backup", "copy.db").returncode == 0

    with Service(tmp_path, "--database", "sqlite:///copy.db") as service:
        client = service.client(token)
        assert client.send("GET", "/plants/1").json == {"id": 1, "name": "a"}
        client.close()


def test_a_backup_overwrites_only_with_force(tmp_path: Path, database: str) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(1, "a")])
    (tmp_path / "copy.db").write_text("precious", encoding="utf-8")

    refused = run(tmp_path, "backup", "copy.db")
    assert refused.returncode == 1
    assert refused.stderr == "plantstore: copy.db exists already; --force overwrites it\n"
    assert (tmp_path / "copy.db").read_text(encoding="utf-8") == "precious"

    forced = run(tmp_path, "backup", "copy.db", "--force")
    assert (forced.returncode, forced.stdout) == (
        0,
        "Plants: 1, tokens: 0, schema: 5\nThe copy has no errors\n",
    )
    assert stored_plants(f"sqlite:///{tmp_path}/copy.db") == {1: NewPlant(1, "a")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "plants.db"]


def test_a_backup_that_runs_out_of_space_leaves_no_new_file_and_keeps_the_old_one(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(id_, "x" * 100_000) for id_ in range(20)])
    (tmp_path / "copy.db").write_text("precious", encoding="utf-8")

    for target, options in (("new.db", []), ("copy.db", ["--force"])):
        done = run(
            tmp_path,
            *("backup", target, *options),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000)),
        )
        assert done.returncode == 1
        said = f"plantstore: The backup cannot be written to {tmp_path}: disk I/O error; "
        assert done.stderr.startswith(said)
        assert done.stderr.count("\n") == 1

    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "plants.db"]
    assert (tmp_path / "copy.db").read_text(encoding="utf-8") == "precious"


def test_a_backup_of_a_corrupt_database_fails_and_leaves_no_file(tmp_path: Path) -> None:
    break_store(tmp_path / "plants.db")

    done = run(tmp_path, "backup", "copy.db")

    assert done.returncode == 1
    assert "The copy has errors" in done.stderr
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_a_backup_beside_the_log_of_another_database_is_refused(
    tmp_path: Path, database: str, suffix: str
) -> None:
    with opened(database):
        pass
    log = tmp_path / f"copy.db{suffix}"
    log.write_bytes(b"changes that SQLite would replay into the copy")

    done = run(tmp_path, "backup", "copy.db", "--force")

    assert done.returncode == 1
    assert f"copy.db{suffix} exists: copy.db is in use" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == [log.name, "plants.db"]


@pytest.mark.parametrize("target", ["no/copy.db", "."])
def test_a_backup_to_an_impossible_path_is_a_one_line_error(
    tmp_path: Path, database: str, target: str
) -> None:
    with opened(database):
        pass

    done = run(tmp_path, "backup", target, "--force")

    assert done.returncode == 1
    assert done.stderr.startswith("plantstore: /")
    assert done.stderr.count("\n") == 1


@pytest.mark.engines("sqlite", "postgres")
def test_a_check_counts_plants_and_tokens_while_the_service_runs(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.client(service.token())
        for id_ in range(3):
            assert client.post(NewPlant(id_, "a")).status == 200

        done = run(tmp_path, "check")
        counted = run(tmp_path, "stats")
        client.close()

    assert (counted.returncode, counted.stdout, counted.stderr) == (0, "Plants: 3\n", "")
    assert (done.returncode, done.stderr) == (0, "")
    told = re.fullmatch(r"Plants: 3, tokens: 2, schema: \d\nNo errors found\n", done.stdout)
    assert told is not None


def break_store(database: Path) -> None:
    """Overwrite the root page of a part of the index of words with an empty page."""
    with opened(f"sqlite:///{database}") as store:
        store.apply_changes([NewPlant(id_, "x" * 100, f"{id_}") for id_ in range(1000)])
    empty_root(database, "plant_words_data")


def test_a_check_of_a_corrupt_database_fails_and_names_the_corrupt_index(tmp_path: Path) -> None:
    break_store(tmp_path / "plants.db")

    done = run(tmp_path, "check")

    assert done.returncode == 1
    assert done.stdout == "Plants: 1,000, tokens: 0, schema: 5\n"
    assert "plant_words" in done.stderr


def damage(database: str) -> None:
    """Rename all plants, and change the recorded number of plants, as another program might."""
    for statement in (
        "UPDATE plants SET name = 'Rosa nigra'",
        "UPDATE totals SET plants = plants + 7",
    ):
        if database.startswith("sqlite"):
            path = database.removeprefix("sqlite:///")
            with contextlib.closing(apsw.Connection(path)) as connection:
                connection.execute(statement)
        else:
            execute(database, statement)


@pytest.mark.engines("sqlite", "postgres")
def test_a_check_names_reindex_which_repairs_the_index_beside_a_service_also_after_kill_9(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        for start in range(-20_000, 0, 2_000):
            store.apply_changes([NewPlant(start + n, "Abies alba") for n in range(2_000)])
    damage(database)
    with Service(tmp_path) as service:
        load = Load(service, service.token(), 0)
        load.wait_until(lambda: len(load.acknowledged) >= 50)
        found = run(tmp_path, "check")

        with opened(database) as store:
            command = subprocess.Popen([*PLANTSTORE, "reindex"], cwd=tmp_path)
            rosa = Listing(limit=1, words=("rosa",), has_total=True)
            wait_until(lambda: store.list_plants(rosa).total != Count(0))
            command.kill()
        status = command.wait(60)
        during = len(load.acknowledged)
        again = run(tmp_path, "reindex")

        load.wait_until(lambda: len(load.acknowledged) > during)
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
    assert sum(plant.name == "Rosa nigra" for plant in stored.values()) == 20_000
