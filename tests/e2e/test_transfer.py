"""`plantstore import` and `export`, on real files and beside a running service."""

import json
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plantstore.cli.transfer import BATCH_PLANTS_MAX
from plantstore.plants import ID_MIN, PLANT_BYTES_MAX, NewPlant
from support.command import call, peak_kib, run
from support.load import Load
from support.service import PLANTSTORE, Service, opened, stored_plants
from support.streams import HARD_PLANTS

ROWS = (
    "id,name,tag\n1,Abies balsamea (L.) Mill.,Abies\n2,Rosa × damascena,\n"
    '3,"Two\nlines, ""quoted""",🌱\n'
)
PLANTS = {
    1: NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"),
    2: NewPlant(2, "Rosa × damascena"),
    3: NewPlant(3, 'Two\nlines, "quoted"', "🌱"),
}
CREATED = "Created the database {}/plants.db\n"


def put_in(database: str, plants: list[NewPlant]) -> None:
    with opened(database) as store:
        for start in range(0, len(plants), 1000):
            store.apply_changes(plants[start : start + 1000])


def csv_of(plants: Iterator[NewPlant]) -> str:
    rows = (f"{plant.id},{plant.name},{plant.tag or ''}\n" for plant in plants)
    return "id,name,tag\n" + "".join(rows)


def many(number: int) -> Iterator[NewPlant]:
    for id_ in range(number):
        yield NewPlant(id_, f"Rosa × {id_}", f"{id_ % 7}" if id_ % 3 else None)


def rejects(folder: Path) -> list[dict[str, Any]]:
    """Return the records that an import wrote to rejects.jsonl, ordered by line."""
    lines = (folder / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda record: record["line"])


def test_a_file_is_imported_and_importing_it_again_changes_nothing(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")

    first, again = (run(tmp_path, "import", "plants.csv") for _ in range(2))

    assert (first.returncode, first.stdout) == (0, "3 stored, 0 already there, 0 rejected\n")
    assert (again.returncode, again.stdout) == (0, "0 stored, 3 already there, 0 rejected\n")
    assert first.stderr == CREATED.format(tmp_path)
    assert again.stderr == "", "stderr has output although it is not a terminal"
    assert stored_plants(database) == PLANTS


def test_json_lines_are_imported_from_a_pipe(tmp_path: Path, database: str) -> None:
    row = '{"id":1,"name":"Rosa × damascena","tag":""}\n'

    done = run(tmp_path, "import", "-", "--format", "jsonl", input=row)

    assert (done.returncode, done.stdout) == (0, "1 stored, 0 already there, 0 rejected\n")
    assert done.stderr == CREATED.format(tmp_path)
    assert stored_plants(database) == {1: NewPlant(1, "Rosa × damascena", "")}


def test_bad_rows_do_not_stop_an_import_and_are_written_to_the_rejects_with_line_and_error(
    tmp_path: Path, database: str
) -> None:
    put_in(database, [NewPlant(2, "another")])
    (tmp_path / "plants.csv").write_text(ROWS + "x,a,b\n4,d,\n1,again,\n", encoding="utf-8")

    done = call(tmp_path, "import", "plants.csv", "--rejects", "rejects.jsonl")

    assert (done.returncode, done.stdout) == (1, "3 stored, 0 already there, 3 rejected\n")
    told = rejects(tmp_path)
    assert [(record["line"], record["error"], record["row"]) for record in told] == [
        (3, 1004, "2,Rosa × damascena,\n"),
        (6, 1002, "x,a,b\n"),
        (8, 1004, "1,again,\n"),
    ]
    assert 'got "x"' in told[1]["message"]
    others = {2: NewPlant(2, "another"), 4: NewPlant(4, "d")}
    assert stored_plants(database) == PLANTS | others


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "a.csv",
            b'id;"Name";x\r\n1;"A";\r\n',
            [b'2 ;"B, ""b""";\r\n', b"3;\xff\xfe;\r\n", b"3;D"],
        ),
        ("a.jsonl", b'{"id":1, "name":"A"}\n', [b' {"id": 1.0} \r\n', b"1,\xff\xfe\n", b"{}"]),
    ],
)
def test_a_rejected_row_is_kept_as_it_is_in_the_file(
    tmp_path: Path, name: str, good: bytes, bad: list[bytes]
) -> None:
    """Only bytes that are not UTF-8 are replaced."""
    (tmp_path / name).write_bytes(good + b"".join(bad))

    done = call(tmp_path, "import", name, "--rejects", "rejects.jsonl")

    assert done.stdout == "1 stored, 0 already there, 3 rejected\n"
    kept = [record["row"] for record in rejects(tmp_path)]
    assert kept == [row.decode(errors="replace") for row in bad]


def test_an_ignored_column_is_a_warning_and_no_message_has_an_escape_sequence(
    tmp_path: Path, database: str
) -> None:
    content = "ID;Name;tags\x1b\n1;Abies alba;Abies\n\x1b]0;owned\x07;a;b\n"
    (tmp_path / "plants.csv").write_text(content, encoding="utf-8")

    done = call(tmp_path, "import", "plants.csv")

    assert (done.returncode, done.stdout) == (1, "1 stored, 0 already there, 1 rejected\n")
    assert done.stderr.splitlines()[0] == (
        'Warning: Column "tags\ufffd" is ignored; known columns are id, name and tag'
    )
    assert "Line 3: " in done.stderr
    assert "\x1b" not in done.stderr
    assert stored_plants(database) == {1: NewPlant(1, "Abies alba")}


def test_without_a_rejects_file_the_first_ten_bad_rows_are_shown(tmp_path: Path) -> None:
    rows = "".join(f"{number}x,a,b\n" for number in range(30))
    (tmp_path / "plants.csv").write_text("id,name,tag\n" + rows, encoding="utf-8")

    done = call(tmp_path, "import", "plants.csv")

    assert (done.returncode, done.stdout) == (1, "0 stored, 0 already there, 30 rejected\n")
    _, *shown = done.stderr.splitlines()
    assert [line.partition(":")[0] for line in shown[:10]] == [f"Line {n}" for n in range(2, 12)]
    assert shown[10:] == ["More rows are rejected; --rejects FILE writes all to a file"]


def import_from_a_pipe(folder: Path, rows: str) -> subprocess.Popen[str]:
    """Begin an import, and return when it has stored a batch; the end of the file is missing."""
    process = subprocess.Popen(
        [*PLANTSTORE, "import", "-", "--format", "csv"],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (as on a terminal)
    )
    assert process.stdin is not None
    process.stdin.write(rows)
    process.stdin.flush()  # the rest fits into the pipe
    return process


def test_a_killed_import_is_completed_by_running_it_again(tmp_path: Path, database: str) -> None:
    plants = list(many(4 * BATCH_PLANTS_MAX))
    rows = csv_of(iter(plants))
    with import_from_a_pipe(tmp_path, rows[: len(rows) // 2]) as killed:
        killed.kill()
    before = stored_plants(database)

    (tmp_path / "plants.csv").write_text(rows, encoding="utf-8")
    done = call(tmp_path, "import", "plants.csv")

    assert 0 < len(before) < len(plants)
    assert len(before) % BATCH_PLANTS_MAX == 0
    expected = f"{len(plants) - len(before):,} stored, {len(before):,} already there, 0 rejected\n"
    assert (done.returncode, done.stdout) == (0, expected)
    assert stored_plants(database) == {plant.id: plant for plant in plants}


def test_an_interrupted_import_prints_its_counts(tmp_path: Path) -> None:
    with import_from_a_pipe(tmp_path, csv_of(many(2 * BATCH_PLANTS_MAX))) as process:
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=60)

    assert process.returncode == 130
    assert said.endswith("already there, 0 rejected\n")
    assert "Traceback" not in complained


def test_an_import_and_a_service_write_to_the_same_database(tmp_path: Path, database: str) -> None:
    plants = [NewPlant(-plant.id - 1, plant.name, plant.tag) for plant in many(30_000)]
    (tmp_path / "plants.csv").write_text(csv_of(iter(plants)), encoding="utf-8")
    with Service(tmp_path) as service:
        load = Load(service, service.token(), 0)
        load.wait_until(lambda: len(load.acknowledged) >= 100)

        done = run(tmp_path, "import", "plants.csv")
        stored_meanwhile = len(load.acknowledged)
        load.wait_until(lambda: len(load.acknowledged) > stored_meanwhile)
        service.stop()
        load.join()

    assert (done.returncode, done.stdout) == (0, "30,000 stored, 0 already there, 0 rejected\n")
    assert not load.refused
    expected = {plant.id: plant for plant in plants} | load.acknowledged
    assert stored_plants(database) == expected


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_importing_an_export_restores_the_same_plants(
    tmp_path: Path, database: str, new_database: Callable[[], str], form: str
) -> None:
    # The largest plant that a request stores is exported and imported, too.
    name = "x" * (PLANT_BYTES_MAX - len(f'{{"id":{ID_MIN + 1},"name":""}}'))
    plants = {plant.id: plant for plant in [*HARD_PLANTS, NewPlant(ID_MIN + 1, name)]}
    put_in(database, [*plants.values()])
    another, file = new_database(), f"plants.{form}"

    exported = call(tmp_path, "export", file, "--database", database)
    imported = call(tmp_path, "import", file, "--database", another)

    assert (exported.returncode, imported.returncode) == (0, 0)
    assert stored_plants(another) == plants


def test_an_export_to_stdout_is_json_lines_or_the_chosen_format(
    tmp_path: Path, database: str
) -> None:
    put_in(database, list(PLANTS.values()))

    lines = run(tmp_path, "export")
    csv = call(tmp_path, "export", "--format", "csv")
    dash = call(tmp_path, "export", "-", "--format", "csv")

    assert [json.loads(line)["id"] for line in lines.stdout.splitlines()] == [1, 2, 3]
    assert lines.stderr == "Exported 3 plants\n"
    assert csv.stdout == dash.stdout == ROWS


def test_an_export_overwrites_only_with_force_and_follows_a_symlink(
    tmp_path: Path, database: str
) -> None:
    put_in(database, list(PLANTS.values()))
    file, link = tmp_path / "**[1]?.csv", tmp_path / "link.csv"
    file.write_text("precious", encoding="utf-8")
    link.symlink_to(file.name)

    refused = call(tmp_path, "export", link.name)
    before = file.read_text(encoding="utf-8")
    forced = call(tmp_path, "export", link.name, "--force")

    assert refused.returncode == 1
    assert refused.stderr == f"plantstore: {file.name} exists already; --force overwrites it\n"
    assert (before, forced.returncode) == ("precious", 0)
    assert file.read_text(encoding="utf-8") == ROWS
    assert link.is_symlink()
    assert {*tmp_path.iterdir()} == {tmp_path / "plants.db", file, link}


def test_an_export_whose_reader_closes_the_pipe_prints_no_error(
    tmp_path: Path, database: str
) -> None:
    put_in(database, list(many(30_000)))

    with subprocess.Popen(
        [*PLANTSTORE, "export"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        complained = process.stderr.read()

    assert (process.returncode, complained) == (1, b"")


def test_a_terminated_export_leaves_no_file_that_looks_complete(
    tmp_path: Path, database: str
) -> None:
    put_in(database, [NewPlant(id_, "x" * 1000) for id_ in range(50_000)])

    for ending in (signal.SIGTERM, signal.SIGKILL):
        command = [*PLANTSTORE, "export", "plants.jsonl"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
            while not list(tmp_path.glob(".plants.jsonl.*")):
                assert process.poll() is None
            process.send_signal(ending)
        assert process.returncode == (143 if ending == signal.SIGTERM else -signal.SIGKILL)
        assert not (tmp_path / "plants.jsonl").exists()
        assert bool(list(tmp_path.glob(".plants.jsonl.*"))) is (ending == signal.SIGKILL)

    assert call(tmp_path, "export", "plants.jsonl").returncode == 0


def test_no_command_overwrites_the_database(tmp_path: Path, database: str) -> None:
    (tmp_path / "good.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "link.db").symlink_to("plants.db")
    commands = [
        "import good.csv --rejects plants.db",
        "import good.csv --rejects link.db",
        "import good.csv --rejects plants.db-wal",
        "export plants.db --format csv --force",
        "export link.db --format csv --force",
        "backup plants.db --force",
        "backup link.db --force",
        "backup plants.db",
    ]
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.post(NewPlant(9, "a")).status == 200

        refused = [call(tmp_path, *command.split()) for command in commands]

        assert client.post(NewPlant(10, "b")).status == 200
        client.close()

    for done in refused:
        assert done.returncode in (1, 2)
        assert done.stderr.count("\n") == 1
    assert stored_plants(database).keys() == {9, 10}


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
def test_rejected_rows_are_not_written_to_a_file_that_the_store_may_create(
    tmp_path: Path, suffix: str
) -> None:
    (tmp_path / "some.csv").write_text("id,name\n1,a\nx,b\n2,c\n", encoding="utf-8")

    done = call(tmp_path, "import", "some.csv", "--rejects", f"plants.db{suffix}")

    assert (done.returncode, done.stdout) == (2, "")
    assert "is a file of the store itself" in done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["some.csv"]


@pytest.mark.parametrize(
    ("content", "options"),
    [(ROWS, ["--database", "sqlite:///no/such/x.db"]), ("number,name\n", [])],
    ids=["no folder", "no header"],
)
def test_an_import_that_cannot_begin_keeps_the_old_rejects_and_creates_no_database(
    tmp_path: Path, content: str, options: list[str]
) -> None:
    (tmp_path / "plants.csv").write_text(content, encoding="utf-8")
    (tmp_path / "rejects").write_text("precious", encoding="utf-8")

    done = call(tmp_path, "import", "plants.csv", "--rejects", "rejects", *options)

    assert (done.returncode, done.stdout) == (1, "")
    assert (tmp_path / "rejects").read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "plants.db").exists()


@pytest.mark.parametrize("redirected", ["import - --format csv <&-", "export >&-"])
def test_a_closed_standard_stream_is_a_one_line_error(
    tmp_path: Path, database: str, redirected: str
) -> None:
    put_in(database, [])

    done = subprocess.run(
        f"{shlex.join(PLANTSTORE)} {redirected}",
        shell=True,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, "plantstore: The standard stream is closed\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("import all_bad.csv --rejects /dev/full", "/dev/full cannot be written: No sp"),
        ("import good.csv --rejects no/r", "no/r cannot be written: No such file"),
        ("import bad.csv", "must name the columns id and name"),
        ("import good.csv --database sqlite:///no/p.db", "No such file or directory"),
        ("export no/a.csv --database sqlite:///other.db", "no/a.csv cannot be written"),
        ("export a.csv --database sqlite:///other.db", "tag is empty"),
    ],
)
def test_a_transfer_that_fails_prints_a_one_line_error(
    tmp_path: Path, arguments: str, said: str
) -> None:
    (tmp_path / "good.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "bad.csv").write_text("number,name\n", encoding="utf-8")
    (tmp_path / "all_bad.csv").write_text("id,name\nx,y\n", encoding="utf-8")
    put_in(f"sqlite:///{tmp_path}/other.db", [NewPlant(1, "a", "")])

    done = call(tmp_path, *arguments.split())

    assert done.returncode == 1
    [*created, line] = done.stderr.splitlines(keepends=True)
    assert said in line
    assert created in ([], [CREATED.format(tmp_path)])
    assert not list(tmp_path.glob("*a.csv*")), "an incomplete export is left"


def test_the_memory_of_a_transfer_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    # The small file is large enough to fill SQLite's caches, which have a fixed size.
    for number in (5 * BATCH_PLANTS_MAX, 15 * BATCH_PLANTS_MAX):
        (tmp_path / "plants.csv").write_text(csv_of(many(number)), encoding="utf-8")
        peaks.append(peak_kib(tmp_path, "import", "plants.csv"))
        peaks.append(peak_kib(tmp_path, "export", "plants.csv", "--force"))

    small_import, small_export, large_import, large_export = peaks
    assert large_import < small_import + 6_000
    assert large_export < small_export + 6_000
