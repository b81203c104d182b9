"""What the options of the commands mean: settings, output files, and URLs of databases."""

import contextlib
import errno
import os
import sys
from pathlib import Path

import pytest

from plantstore.cli.opening import new_file, require_other_file
from plantstore.errors import OperationError, UsageError
from plantstore.settings import WORKERS_MAX, parse_workers, unknown_variables, usable_cores
from plantstore.storage import database_files, display_url, open_store
from plantstore.storage.postgres.primary import hosts_of, parse_url
from plantstore.storage.postgres.session import standbys_in

# Variables that are named like a setting, but are none; and the number of workers.


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("PLANTSTORE_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("PLANTSTORE_WORKRES", "; did you mean PLANTSTORE_WORKERS?"),
        ("PLANTSTORE_DATABASE_URL", "; did you mean PLANTSTORE_DATABASE?"),
        ("PLANTSTORE_COLOUR", ""),
    ],
)
def test_an_unknown_variable_is_named_with_the_most_similar_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, similar: str
) -> None:
    monkeypatch.setenv(name, "2")

    assert list(unknown_variables()) == [f"{name} is not a setting{similar}"]


def test_settings_and_variables_of_others_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKERS", "STANDBYS_MIN", "TEST_POSTGRES", "TOKEN"):
        monkeypatch.setenv(f"PLANTSTORE_{name}", "2")
    monkeypatch.setenv("WORKRES", "2")

    assert not list(unknown_variables())


def test_the_cores_are_those_of_the_affinity_mask_unless_a_cgroup_limits_them(
    tmp_path: Path,
) -> None:
    assert usable_cores(Path("/nowhere"), Path("/nowhere"), range(64)) == 64
    assert usable_cores(Path("/nowhere")) == len(os.sched_getaffinity(0))

    service = tmp_path / "cgroup" / "slice" / "service"
    service.mkdir(parents=True)
    (service.parent / "cpu.max").write_text("150000 100000\n", encoding="ascii")
    (tmp_path / "own").write_text("1:cpu:/\n0::/slice/service\n", encoding="utf-8")
    for limit, cores in (("max 100000", 2), ("50000 100000", 1), ("garbage", 64)):
        (service / "cpu.max").write_text(f"{limit}\n", encoding="ascii")
        assert usable_cores(tmp_path / "cgroup", tmp_path / "own", range(64)) == cores
    (tmp_path / "own").write_text("", encoding="utf-8")  # as in a sandbox
    assert usable_cores(tmp_path / "cgroup", tmp_path / "own", range(64)) == 64


def test_auto_is_a_worker_for_each_core() -> None:
    assert parse_workers("auto") == min(usable_cores(), WORKERS_MAX)
    assert parse_workers("64") == 64


@pytest.mark.parametrize("text", ["0", "65", "-1", "1.5", "", "Auto", "\u0663"])
def test_another_number_of_workers_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be auto or a number from 1 to 64"):
        parse_workers(text)


# Output files of commands: each is complete, or does not exist.

DATABASE = "postgresql://plants@localhost/plants"


def fail_as_sqlite_would(partial: Path) -> None:
    for suffix in ("-journal", "-wal", "-shm"):
        partial.with_name(partial.name + suffix).touch()
    raise ZeroDivisionError


@pytest.mark.parametrize("force", [False, True])
def test_the_output_file_appears_where_a_link_leads_when_the_block_ends_without_an_error(
    tmp_path: Path, *, force: bool
) -> None:
    target, link = tmp_path / "**[1]?.csv", tmp_path / "link"
    link.symlink_to(target.name)
    if force:
        target.write_text("old", encoding="utf-8")

    with new_file(link, DATABASE, force=force, mode=0o640) as partial:
        partial.write_text("whole", encoding="utf-8")
        assert not target.exists() or target.read_text(encoding="utf-8") == "old"

    assert target.read_text(encoding="utf-8") == "whole"
    assert target.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert {*tmp_path.iterdir()} == {target, link}


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


@pytest.fixture
def no_links(tmp_path: Path) -> Path:
    """Return a folder in which there are no hard links, as on a USB stick."""

    def refuse(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.link" and str(tmp_path) in str(arguments[0]):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    sys.addaudithook(refuse)  # it stays until the process ends
    return tmp_path


def test_a_file_system_without_hard_links_gets_the_file_and_keeps_an_existing_one(
    no_links: Path,
) -> None:
    target = no_links / "target"
    with new_file(target, DATABASE, force=False, mode=0o640) as partial:
        partial.write_text("precious", encoding="utf-8")
    mode = target.stat().st_mode & 0o777

    other = no_links / "other"
    with (
        pytest.raises(OperationError, match="exists already"),
        new_file(other, DATABASE, force=False, mode=0o600),
    ):
        target.rename(other)

    assert other.read_text(encoding="utf-8") == "precious"
    assert mode == 0o640
    assert list(no_links.iterdir()) == [other]


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


def test_a_file_that_the_disk_may_not_have_is_an_error_and_not_kept(tmp_path: Path) -> None:
    """The kernel refuses to sync /dev/null."""
    null = tmp_path / "null"
    null.symlink_to("/dev/null")

    with (
        pytest.raises(OperationError, match="cannot be written: Invalid argument"),
        new_file(tmp_path / "target", DATABASE, force=True, mode=0o600) as partial,
    ):
        null.replace(partial)

    assert list(tmp_path.iterdir()) == []


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


# URLs of PostgreSQL, and how standbys are counted.


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///plants.db", "sqlite:///plants.db"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://ann:secret@h:1,i:2/d?sslmode=require", "postgresql://h:1,i:2/d"),
        ("postgres://ann:secret@/d?host=/run&password=secret", "postgres:///d"),
        ("postgresql://ann:sec?ret@h/d", "postgresql://..."),
        ("postgresql://ann:sec/ret@h/d", "postgresql://h/d"),
        ("postgresql://h/d?password=sec@ret", "postgresql://..."),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert display_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql+psycopg://ann:secret@h/d", "Postgresql://ann:secret@h/d"),
        *(" postgresql://ann:secret@h/d", "postgresql:ann:secret@h/d", "host=h password=secret"),
        *("postgresql://h/d?x=sec", "postgresql://h:sec/d", "postgresql://ann:%sec@h/d"),
        *("postgresql://ann:a/b?sec=ret@h/d", "postgresql://h/d?password=abc&secret"),
        "postgresql://h/d?sslmod=require",
    ],
)
def test_the_refusal_of_a_url_does_not_quote_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)

    assert "postgresql://USER@HOST:PORT/NAME" in caught.value.message
    assert not any(part in caught.value.message for part in ("sec", "ret@"))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://one:5432,two:x/d", "its port is not a number"),
        ("postgresql://h/d?port=\u0663", "its port is not a number"),
        ("postgresql://h/d?connect_timeout=3s", "its connect_timeout is not a number"),
    ],
)
def test_a_malformed_number_is_named(url: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)

    assert said in caught.value.message


def test_each_host_of_a_url_has_its_own_address_and_port() -> None:
    def named(url: str) -> list[str]:
        return [host.name for host in hosts_of(parse_url(url))]

    assert named("postgresql://h/d") == ["h:5432"]
    assert named("postgresql:///d") == [":5432"]
    assert named("postgresql://one:1,two,three:3/d") == ["one:1", "two:5432", "three:3"]
    assert named("postgresql:///d?host=one,two&port=7") == ["one:7", "two:7"]
    assert named("postgresql:///d?hostaddr=10.0.0.1,10.0.0.2") == ["10.0.0.1:5432", "10.0.0.2:5432"]
    parameters = {"host": "two", "hostaddr": "10.0.0.2", "port": "7"}
    url = "postgresql:///d?host=one,two&hostaddr=10.0.0.1,10.0.0.2&port=7"
    assert hosts_of(parse_url(url))[1].parameters == parameters
    with pytest.raises(UsageError, match="as many ports as hosts"):
        named("postgresql:///d?host=one,two,three&port=1,2")


@pytest.mark.parametrize(
    ("names", "standbys"),
    [
        ("", 0),
        ("*", 1),
        ("a, b", 1),
        ("FIRST 2 (a, b)", 2),
        ("any 2 (a, b)", 2),
        (' ANY  3 ("a b", "1 (x)", c)', 3),
        ('"2 (a)"', 1),
    ],
)
def test_synchronous_standbys_are_counted_as_postgresql_counts_them(
    names: str, standbys: int
) -> None:
    assert standbys_in(names) == standbys
