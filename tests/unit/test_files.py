"""Output files of commands: each is complete, or does not exist."""

import contextlib
from pathlib import Path

import pytest

from plantstore.cli.opening import new_file, require_other_file
from plantstore.errors import OperationError, UsageError
from plantstore.storage import database_files, open_store

DATABASE = "postgresql://plants@localhost/plants"


def fail_as_sqlite_would(partial: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm"):
        partial.with_name(partial.name + suffix).touch()
    raise ZeroDivisionError


@pytest.mark.parametrize("force", [False, True])
def test_the_output_file_appears_when_the_block_ends_without_an_error(
    tmp_path: Path, *, force: bool
) -> None:
    target = tmp_path / "target"

    with new_file(target, DATABASE, force=force, mode=0o640) as partial:
        partial.write_text("whole", encoding="utf-8")
        assert not target.exists()

    assert target.read_text(encoding="utf-8") == "whole"
    assert target.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("is_there", [True, False], ids=["before the write", "during the write"])
def test_a_file_that_exists_is_not_overwritten(tmp_path: Path, *, is_there: bool) -> None:
    target = tmp_path / "target"
    if is_there:
        target.write_text("precious", encoding="utf-8")

    with (
        pytest.raises(OperationError, match="exists already"),
        new_file(target, DATABASE, force=False, mode=0o600),
    ):
        target.write_text("overwritten" if is_there else "precious", encoding="utf-8")

    assert target.read_text(encoding="utf-8") == "precious"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("force", [False, True])
def test_a_failed_write_leaves_no_new_file_and_keeps_the_existing_one(
    tmp_path: Path, *, force: bool
) -> None:
    target = tmp_path / "target"
    if force:
        target.write_text("precious", encoding="utf-8")
    before = list(tmp_path.iterdir())

    with (
        pytest.raises(ZeroDivisionError),
        new_file(target, DATABASE, force=force, mode=0o600) as partial,
    ):
        fail_as_sqlite_would(partial)

    assert list(tmp_path.iterdir()) == before
    assert not force or target.read_text(encoding="utf-8") == "precious"


def test_a_file_of_the_store_is_refused_as_output_under_any_of_its_names(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/link.db"
    (tmp_path / "link.db").symlink_to("plants.db")
    (tmp_path / "hard.db").touch()
    with contextlib.closing(open_store(url)):
        (tmp_path / "hard.db-wal").hardlink_to(tmp_path / "plants.db-wal")

        for name in ("plants.db", "plants.db-wal", "plants.db-shm", "link.db", "hard.db-wal"):
            with pytest.raises(UsageError, match=f"{name} is a file of the store"):
                require_other_file(tmp_path / name, url)

    for name in ("hard.db", "new.db", "."):
        require_other_file(tmp_path / name, url)
    assert database_files(DATABASE) == []
