"""Export, check and backup by a user who may read the database but not write it."""

import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.command import run_unprivileged
from support.service import Service, opened, stored_plants

PLANTS = {id_: NewPlant(id_, "Abies", "t") for id_ in range(3)}

# Stores three plants and kills itself, so that they are only in the write-ahead log.
STORE_AND_DIE = """
import os, signal, sys
from plantstore.plants import NewPlant
from plantstore.storage import open_store
store = open_store(sys.argv[1])
store.apply_changes([NewPlant(id_, "Abies", "t") for id_ in range(3)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder that every user may enter; only its owner may enter pytest's `tmp_path`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        folder.chmod(0o755)


@pytest.fixture
def target() -> Iterator[Path]:
    """Return a folder in which every user may write."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def forbid_writes(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}


def assert_all_commands_work(folder: Path, target: Path) -> None:
    before = state(folder)

    checked = run_unprivileged(folder, "check")
    exported = run_unprivileged(folder, "export")
    copied = run_unprivileged(folder, "backup", str(target / "copy.db"))

    summary = "Plants: 3, tokens: 0, schema: 5\n"
    assert (checked.stderr, checked.stdout) == ("", f"{summary}No errors found\n")
    assert exported.stderr == "Exported 3 plants\n"
    assert exported.stdout.count("Abies") == 3
    assert (copied.stderr, copied.stdout) == ("", f"{summary}The copy has no errors\n")
    assert [checked.returncode, exported.returncode, copied.returncode] == [0, 0, 0]
    assert stored_plants(f"sqlite:///{target}/copy.db") == PLANTS
    assert state(folder) == before, "a command changed the files of the database"


def test_a_read_only_database_that_is_not_in_use_is_read(folder: Path, target: Path) -> None:
    with opened(f"sqlite:///{folder}/plants.db") as store:
        store.apply_changes([*PLANTS.values()])
    forbid_writes(folder)

    assert_all_commands_work(folder, target)


def test_plants_that_a_crash_left_in_a_read_only_log_are_read(folder: Path, target: Path) -> None:
    program = [sys.executable, "-c", STORE_AND_DIE, f"sqlite:///{folder}/plants.db"]
    subprocess.run(program, check=False, timeout=60)
    assert stat.S_ISREG((folder / "plants.db-wal").stat().st_mode)
    forbid_writes(folder)

    assert_all_commands_work(folder, target)


def test_a_read_only_user_reads_a_database_in_use_and_the_service_continues(
    folder: Path, target: Path
) -> None:
    with Service(folder, database=f"sqlite:///{folder}/plants.db") as service:
        client = service.client(service.token())
        for plant in PLANTS.values():
            assert client.post(plant).status == 200
        for file in folder.iterdir():
            file.chmod(0o644)

        exported = run_unprivileged(folder, "export")
        copied = run_unprivileged(folder, "backup", str(target / "copy.db"))
        later = client.post(NewPlant(9, "Rosa"))
        client.close()

    assert (exported.returncode, exported.stdout.count("Abies")) == (0, 3)
    assert (copied.returncode, copied.stderr) == (0, "")
    assert later.status == 200
    assert stored_plants(f"sqlite:///{target}/copy.db") == PLANTS


def test_a_read_only_log_without_its_shm_file_is_a_one_line_error(folder: Path) -> None:
    program = [sys.executable, "-c", STORE_AND_DIE, f"sqlite:///{folder}/plants.db"]
    subprocess.run(program, check=False, timeout=60)
    (folder / "plants.db-shm").unlink()
    forbid_writes(folder)

    done = run_unprivileged(folder, "export")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "plantstore: The database plants.db cannot be read without permission to write: its latest"
        " changes are in plants.db-wal; run the command as the owner of the file\n"
    )


def test_a_command_that_writes_says_that_the_file_is_read_only(folder: Path) -> None:
    with opened(f"sqlite:///{folder}/plants.db"):
        pass
    forbid_writes(folder)

    done = run_unprivileged(folder, "token", "create", "t")

    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot be written: it is read-only for this user" in done.stderr
