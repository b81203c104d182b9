"""`plantstore import` and `export`, on real files and beside a running service."""

import contextlib
import json
import shlex
import signal
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.plants import ID_MIN, PLANT_BYTES_MAX, NewPlant
from support.command import call, run_program
from support.service import PLANTSTORE, opened, stored_plants

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
        store.apply_changes(plants)


def rejects(folder: Path) -> list[dict[str, Any]]:
    """Return the records that an import wrote to rejects.jsonl, ordered by line."""
    lines = (folder / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda record: record["line"])


def test_a_file_is_imported_and_importing_it_again_changes_nothing(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")

    first, again = (call(tmp_path, "import", "plants.csv") for _ in range(2))

    assert (first.returncode, first.stdout) == (0, "3 stored, 0 already there, 0 rejected\n")
    assert (again.returncode, again.stdout) == (0, "0 stored, 3 already there, 0 rejected\n")
    assert first.stderr == CREATED.format(tmp_path)
    assert again.stderr == "", "stderr has output although it is not a terminal"
    assert stored_plants(database) == PLANTS


def test_a_dry_run_prints_what_would_be_stored_and_creates_no_database(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")

    without = call(tmp_path, "import", "plants.csv", "--dry-run")

    assert (without.returncode, without.stdout) == (1, "")
    assert "`plantstore migrate` creates" in without.stderr
    assert not (tmp_path / "plants.db").exists()
    put_in(database, [PLANTS[1], NewPlant(2, "another")])
    done = call(tmp_path, "import", "plants.csv", "--dry-run", "--rejects", "rejects.jsonl")

    said = "Dry run: 1 stored, 1 already there, 1 rejected\n"
    assert (done.returncode, done.stdout) == (1, said)
    assert [each["error"] for each in rejects(tmp_path)] == [1004]
    assert stored_plants(database) == {1: PLANTS[1], 2: NewPlant(2, "another")}


def test_bad_rows_do_not_stop_an_import_and_are_written_to_a_file_or_the_first_are_shown_as_text(
    tmp_path: Path, database: str
) -> None:
    put_in(database, [NewPlant(2, "another")])
    many_bad = '\x1b]0;owned\x07,"a\nb",\n' + "".join(f"{number}x,a,b\n" for number in range(29))
    (tmp_path / "plants.csv").write_text(ROWS + "x,a,b\n4,d,\n1,again,\n", encoding="utf-8")
    (tmp_path / "bad.csv").write_text("id,name,tags\x1b\n" + many_bad, encoding="utf-8")

    done = call(tmp_path, "import", "plants.csv", "--rejects", "rejects.jsonl")
    without = call(tmp_path, "import", "bad.csv")

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
    shown = without.stderr.splitlines()
    assert [line.partition(":")[0] for line in shown[:10]] == [
        "Lines 2 to 3",
        *(f"Line {number}" for number in range(4, 13)),
    ]
    assert shown[10:] == [
        "More rows are rejected; --rejects FILE writes all to a file",
        'Warning: Column "tags\ufffd" is ignored; known columns are id, name and tag',
    ]
    assert "\x1b" not in without.stderr


def test_an_interrupted_import_prints_its_counts(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PLANTSTORE, "import", "-", "--format", "jsonl"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (as on a terminal)
    ) as process:
        assert process.stdin is not None
        rows = (f'{{"id":{id_},"name":"Rosa"}}\n' for id_ in range(5 * BATCH_ROWS_MAX))
        process.stdin.write("".join(rows))
        process.stdin.flush()  # the rest fits into the pipe
        process.send_signal(signal.SIGINT)
        said, complained = process.communicate(timeout=60)

    assert process.returncode == 130
    assert said.endswith("already there, 0 rejected\n")
    assert "Traceback" not in complained


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_importing_an_export_restores_the_same_plants(
    tmp_path: Path, database: str, form: str
) -> None:
    # The largest plant that a request stores is exported and imported, too.
    name = "x" * (PLANT_BYTES_MAX - len(f'{{"id":{ID_MIN + 1},"name":""}}'))
    plants = {ID_MIN + 1: NewPlant(ID_MIN + 1, name)} | PLANTS
    other = f"sqlite:///{tmp_path}/other.db"
    put_in(other, [*plants.values()])

    file = tmp_path / f"plants.{form}"
    done = [
        call(tmp_path, "export", file.name, "--database", other),
        call(tmp_path, "import", file.name),
    ]
    first = file.read_bytes()
    file.write_bytes(b"precious")
    done.append(call(tmp_path, "export", file.name, "--force"))

    assert [each.returncode for each in done] == [0, 0, 0]
    assert stored_plants(database) == plants
    assert file.read_bytes() == first


def test_an_export_to_stdout_is_json_lines_or_the_chosen_format(
    tmp_path: Path, database: str
) -> None:
    put_in(database, list(PLANTS.values()))

    lines = call(tmp_path, "export")
    csv = call(tmp_path, "export", "--format", "csv")
    dash = call(tmp_path, "export", "-")

    assert [json.loads(line)["id"] for line in lines.stdout.splitlines()] == [1, 2, 3]
    assert lines.stderr == "Exported 3 plants\n"
    assert (csv.stdout, dash.stdout) == (ROWS, lines.stdout)


def test_an_export_whose_reader_closes_the_pipe_prints_no_error(
    tmp_path: Path, database: str
) -> None:
    put_in(database, [NewPlant(id_, "Rosa") for id_ in range(10_000)])

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
    put_in(database, [NewPlant(id_, "x" * 1000) for id_ in range(20_000)])

    for ending in (signal.SIGHUP, signal.SIGKILL):
        command = [*PLANTSTORE, "export", "plants.jsonl"]
        status = 0
        while status == 0:  # the export may end before the signal
            (tmp_path / "plants.jsonl").unlink(missing_ok=True)
            with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
                while process.poll() is None and not list(tmp_path.glob(".plants.jsonl.*")):
                    pass
                process.send_signal(ending)
            status = process.returncode
        assert status == (-ending if ending == signal.SIGKILL else 128 + ending)
        assert not (tmp_path / "plants.jsonl").exists()
        assert bool(list(tmp_path.glob(".plants.jsonl.*"))) is (ending == signal.SIGKILL)

    assert call(tmp_path, "export", "plants.jsonl").returncode == 0


@pytest.mark.parametrize(
    ("redirected", "status", "said"),
    [
        *(("export all.csv 2>&-", 0, ""), ("backup copy.db >&- 2>&-", 0, "")),
        ("stats >/dev/full", 1, "plantstore: input or output: No space left on device\n"),
        ("backup copy.db >/dev/full", 1, "plantstore: input or output: No space left on device\n"),
        *(("token create t 2>/dev/full", 1, ""), ("no-command 2>/dev/full", 2, "")),
    ],
)
def test_a_standard_stream_that_cannot_be_written_changes_neither_status_nor_files(
    tmp_path: Path, database: str, redirected: str, status: int, said: str
) -> None:
    put_in(database, [])

    done = run_program("sh", "-c", f"{shlex.join(PLANTSTORE)} {redirected}", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (status, said)
    file = redirected.split()[1]
    assert "." not in file or (tmp_path / file).exists()


def test_plants_are_exported_although_their_number_is_damaged(
    tmp_path: Path, database: str
) -> None:
    put_in(database, [NewPlant(1, "Rosa")])
    file = tmp_path / "plants.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        root = "SELECT rootpage FROM sqlite_schema WHERE name = 'totals'"
        [(page, size)] = connection.execute(f"SELECT ({root}), page_size FROM pragma_page_size")
    with file.open("r+b") as database_file:
        database_file.seek((page - 1) * size)
        database_file.write(bytes(size))

    done = call(tmp_path, "export")

    assert (done.returncode, done.stdout) == (0, '{"id":1,"name":"Rosa"}\n')


@pytest.mark.parametrize("redirected", ["import - --format csv <&-", "export >&-"])
def test_a_closed_standard_stream_is_a_one_line_error(
    tmp_path: Path, database: str, redirected: str
) -> None:
    put_in(database, [])

    done = run_program("sh", "-c", f"{shlex.join(PLANTSTORE)} {redirected}", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (1, "plantstore: The standard stream is closed\n")
