"""`plantstore import` and `export`, on real files and beside a running service."""

import contextlib
import io
import itertools
import json
import os
import pty
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plantstore.cli import app
from plantstore.cli.transfer import BATCH_PLANTS_MAX
from plantstore.errors import OperationError
from plantstore.plants import ID_MAX, ID_MIN, PLANT_BYTES_MAX, NewPlant
from support.command import peak_kib, run
from support.load import Load
from support.service import PLANTSTORE, Service, opened, stored_plants

ROWS = (
    "id,name,tag\n1,Abies balsamea (L.) Mill.,Abies\n2,Rosa × damascena,\n"
    '3,"Two\nlines, ""quoted""",🌱\n'
)
PLANTS = {
    1: NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"),
    2: NewPlant(2, "Rosa × damascena"),
    3: NewPlant(3, 'Two\nlines, "quoted"', "🌱"),
}


def put_in(database: str, plants: list[NewPlant]) -> None:
    with opened(database) as store:
        for start in range(0, len(plants), 1000):
            store.apply_changes(plants[start : start + 1000])


def csv_of(plants: Iterator[NewPlant]) -> str:
    rows = (f"{plant.id},{plant.name},{plant.tag or ''}\n" for plant in plants)
    return "id,name,tag\n" + "".join(rows)


def call(*arguments: str) -> None:
    """Run a command in this process."""
    app(arguments, standalone_mode=False)


def many(number: int) -> Iterator[NewPlant]:
    for id_ in range(number):
        yield NewPlant(id_, f"Rosa × {id_}", f"{id_ % 7}" if id_ % 3 else None)


def rejects(folder: Path) -> list[dict[str, Any]]:
    """Return the records that an import wrote to rejects.jsonl, ordered by line."""
    lines = (folder / "rejects.jsonl").read_text(encoding="utf-8").splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda record: record["line"])


@pytest.mark.engines("sqlite", "postgres")
def test_a_file_is_imported_and_importing_it_again_changes_nothing(
    tmp_path: Path, database: str
) -> None:
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")

    first, again = (run(tmp_path, "import", "plants.csv") for _ in range(2))

    assert (first.returncode, first.stdout) == (0, "3 stored, 0 already there, 0 rejected\n")
    assert (again.returncode, again.stdout) == (0, "0 stored, 3 already there, 0 rejected\n")
    created = f"Created the database {tmp_path}/plants.db\n"
    assert first.stderr == (created if database.startswith("sqlite") else "")
    assert again.stderr == "", "stderr has output although it is not a terminal"
    assert stored_plants(database) == PLANTS


def test_json_lines_are_imported_from_a_pipe(tmp_path: Path, database: str) -> None:
    lines = "".join(
        json.dumps({"id": plant.id, "name": plant.name, "tag": plant.tag or ""}) + "\n"
        for plant in PLANTS.values()
    )

    done = run(tmp_path, "import", "-", "--format", "jsonl", input=lines)

    assert (done.returncode, done.stdout) == (0, "3 stored, 0 already there, 0 rejected\n")
    assert stored_plants(database)[2] == NewPlant(2, "Rosa × damascena", "")


def test_bad_rows_do_not_stop_an_import_and_are_written_to_the_rejects_with_line_and_error(
    tmp_path: Path, database: str
) -> None:
    put_in(database, [NewPlant(2, "another")])
    (tmp_path / "plants.csv").write_text(ROWS + "x,a,b\n4,d,\n1,again,\n", encoding="utf-8")

    done = run(tmp_path, "import", "plants.csv", "--rejects", "rejects.jsonl")

    assert (done.returncode, done.stdout) == (1, "3 stored, 0 already there, 3 rejected\n")
    told = rejects(tmp_path)
    assert [(record["line"], record["error"], record["row"]) for record in told] == [
        (3, 1004, "2,Rosa × damascena,\n"),
        (6, 1002, "x,a,b\n"),
        (8, 1004, "1,again,\n"),
    ]
    assert 'got "x"' in told[1]["message"]
    assert stored_plants(database) == PLANTS | {
        2: NewPlant(2, "another"),
        4: NewPlant(4, "d"),
    }


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_bytes_of_a_rejected_row_that_are_not_utf8_are_replaced(tmp_path: Path, form: str) -> None:
    header = b"id,name\n" if form == "csv" else b""
    (tmp_path / "plants").write_bytes(header + b"1,\xff\xfe\n")

    run(tmp_path, "import", "plants", "--format", form, "--rejects", "rejects.jsonl")

    assert [record["row"] for record in rejects(tmp_path)] == ["1,\ufffd\ufffd\n"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_rejected_row_is_kept_as_it_is_in_the_file(tmp_path: Path, end: str) -> None:
    rows = ['"1" ;"A";x', '2;"B, ""b""";"9"', '2; "C"; ', "3;D", "2;E;"]
    content = end.join(['id;"Name";price', *rows])
    (tmp_path / "plants.csv").write_bytes(content.encode())

    done = run(tmp_path, "import", "plants.csv", "--rejects", "rejects.jsonl")

    assert done.stdout == "1 stored, 0 already there, 4 rejected\n"
    kept = [record["row"] for record in rejects(tmp_path)]
    assert kept == [rows[0] + end, rows[2] + end, rows[3] + end, rows[4]]


def test_a_rejected_json_line_is_kept_as_it_is_in_the_file(tmp_path: Path) -> None:
    lines = ['{"name" : "\\u0041", "id":1, "x":2}\r\n', ' {"id": 1.0, "name": "B"} \r\n', "{}"]
    (tmp_path / "plants.jsonl").write_bytes("".join(lines).encode())

    run(tmp_path, "import", "plants.jsonl", "--rejects", "rejects.jsonl")

    assert [record["row"] for record in rejects(tmp_path)] == lines[1:]


def test_an_ignored_column_is_a_warning_that_names_it(tmp_path: Path, database: str) -> None:
    (tmp_path / "plants.csv").write_text("ID;Name;tags\x1b\n1;Abies alba;Abies\n", encoding="utf-8")

    done = run(tmp_path, "import", "plants.csv")

    assert (done.returncode, done.stdout) == (0, "1 stored, 0 already there, 0 rejected\n")
    assert done.stderr.splitlines()[0] == (
        'Warning: Column "tags\ufffd" is ignored; known columns are id, name and tag'
    )
    assert stored_plants(database) == {1: NewPlant(1, "Abies alba")}


def test_without_a_rejects_file_the_first_ten_bad_rows_are_shown(tmp_path: Path) -> None:
    rows = "".join(f"{number}x,a,b\n" for number in range(30))
    (tmp_path / "plants.csv").write_text("id,name,tag\n" + rows, encoding="utf-8")

    done = run(tmp_path, "import", "plants.csv")

    assert (done.returncode, done.stdout) == (1, "0 stored, 0 already there, 30 rejected\n")
    shown = [line for line in done.stderr.splitlines() if not line.startswith("Created the ")]
    assert [line.partition(":")[0] for line in shown[:10]] == [f"Line {n}" for n in range(2, 12)]
    assert shown[10:] == ["More rows are rejected; --rejects FILE writes all to a file"]


@pytest.mark.engines("sqlite", "postgres")
def test_a_killed_import_is_completed_by_running_it_again(tmp_path: Path, database: str) -> None:
    plants = list(many(5 * BATCH_PLANTS_MAX))
    rows = csv_of(iter(plants))
    source, sink = os.pipe()
    with subprocess.Popen(
        [*PLANTSTORE, "import", "-", "--format", "csv"], cwd=tmp_path, stdin=source
    ) as killed:
        os.close(source)
        with open(sink, "w", encoding="utf-8") as pipe:  # noqa: PTH123 (a descriptor)
            pipe.write(rows[: len(rows) // 2])
            pipe.flush()  # the rest fits into the pipe: the import has stored a batch or two
            killed.kill()
    before = stored_plants(database)

    (tmp_path / "plants.csv").write_text(rows, encoding="utf-8")
    done = run(tmp_path, "import", "plants.csv")

    assert 0 < len(before) < len(plants)
    assert len(before) % BATCH_PLANTS_MAX == 0
    expected = f"{len(plants) - len(before):,} stored, {len(before):,} already there, 0 rejected\n"
    assert (done.returncode, done.stdout) == (0, expected)
    assert stored_plants(database) == {plant.id: plant for plant in plants}


def test_an_interrupted_import_prints_its_counts(tmp_path: Path) -> None:
    source, sink = os.pipe()
    with subprocess.Popen(
        [*PLANTSTORE, "import", "-", "--format", "csv"],
        cwd=tmp_path,
        stdin=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 (as on a terminal)
    ) as process:
        os.close(source)
        with open(sink, "w", encoding="utf-8") as pipe:  # noqa: PTH123 (a descriptor)
            pipe.write(csv_of(many(2 * BATCH_PLANTS_MAX)))
            pipe.flush()
            process.send_signal(signal.SIGINT)
            said, complained = process.communicate(timeout=60)

    assert process.returncode == 130
    assert said.endswith("already there, 0 rejected\n")
    assert "Traceback" not in complained


@pytest.mark.engines("sqlite", "postgres")
def test_an_import_and_a_service_write_to_the_same_database(tmp_path: Path, database: str) -> None:
    plants = [NewPlant(-plant.id - 1, plant.name, plant.tag) for plant in many(50_000)]
    (tmp_path / "plants.csv").write_text(csv_of(iter(plants)), encoding="utf-8")
    with Service(tmp_path) as service:
        load = Load(service, service.token(), 0)
        load.wait_until(lambda: len(load.acknowledged) >= 100)

        done = run(tmp_path, "import", "plants.csv")
        stored_meanwhile = len(load.acknowledged)
        load.wait_until(lambda: len(load.acknowledged) > stored_meanwhile)
        service.stop()
        load.join()

    assert (done.returncode, done.stdout) == (0, "50,000 stored, 0 already there, 0 rejected\n")
    assert not load.refused
    expected = {plant.id: plant for plant in plants} | load.acknowledged
    assert stored_plants(database) == expected


@pytest.mark.engines("sqlite", "postgres")
def test_an_export_under_load_is_a_consistent_snapshot(tmp_path: Path, database: str) -> None:
    put_in(database, list(many(30_000)))
    low, high, stop = 0, 29_999, threading.Event()
    with Service(tmp_path) as service:
        client = service.client(service.token())

        def replace() -> None:  # the low id first, so that its number is never the smaller one
            for number in itertools.count():
                if stop.is_set():
                    return
                for id_ in (low, high):
                    path = f"/plants/{id_}"
                    assert client.send_record("PUT", path, str(number), None).status == 200

        thread = threading.Thread(target=replace)
        thread.start()
        exported = []
        for number in range(3):
            assert run(tmp_path, "export", f"{number}.jsonl").returncode == 0
            lines = (tmp_path / f"{number}.jsonl").read_text(encoding="utf-8").splitlines()
            exported.append([json.loads(line) for line in lines])
        stop.set()
        thread.join()
        client.close()

    for plants in exported:
        assert [plant["id"] for plant in plants] == list(range(30_000))
        if plants[high]["name"].isdigit():
            assert int(plants[low]["name"]) - int(plants[high]["name"]) in (0, 1)
    assert exported[-1][high]["name"].isdigit(), "no plant was replaced during the exports"


awkward = st.sampled_from(["", '"', ",", "\n", "\r", "\r\n", "×", "🌱", " a ", "\u2028", "\ufeff"])
texts = awkward | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
plants_by_id = st.dictionaries(
    st.integers(ID_MIN, ID_MAX), st.tuples(texts, st.none() | texts), max_size=20
)


@pytest.mark.engines("sqlite", "postgres")
@given(plants_by_id, st.sampled_from(["csv", "jsonl"]))
@settings(
    max_examples=100,
    deadline=None,
    # Each example creates its own databases.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_importing_an_export_restores_the_same_plants(
    new_database: Callable[[], str], records: dict[int, tuple[str, str | None]], form: str
) -> None:
    plants = [NewPlant(id_, name, tag) for id_, (name, tag) in records.items()]
    one, another = new_database(), new_database()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"plants.{form}")
        put_in(one, plants)
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            if form == "csv" and any(plant.tag == "" for plant in plants):
                with pytest.raises(OperationError, match="tag is empty"):
                    call("export", str(file), "--database", one)
                assert not list(Path(folder).glob("*plants*"))
                return
            call("export", str(file), "--database", one)
            call("import", str(file), "--database", another)

        assert stored_plants(another) == {plant.id: plant for plant in plants}


def test_an_export_to_stdout_is_json_lines_or_the_chosen_format(
    tmp_path: Path, database: str
) -> None:
    put_in(database, list(PLANTS.values()))

    lines = run(tmp_path, "export")
    csv = run(tmp_path, "export", "--format", "csv")
    dash = run(tmp_path, "export", "-", "--format", "csv")

    assert [json.loads(line)["id"] for line in lines.stdout.splitlines()] == [1, 2, 3]
    assert lines.stderr == "Exported 3 plants\n"
    assert csv.stdout.replace("\r\n", "\n") == ROWS
    assert dash.stdout == csv.stdout


def test_an_export_overwrites_only_with_force(tmp_path: Path, database: str) -> None:
    put_in(database, list(PLANTS.values()))
    (tmp_path / "plants.csv").write_text("precious", encoding="utf-8")

    refused = run(tmp_path, "export", "plants.csv")
    assert refused.returncode == 1
    assert refused.stderr == "plantstore: plants.csv exists already; --force overwrites it\n"
    assert (tmp_path / "plants.csv").read_text(encoding="utf-8") == "precious"

    assert run(tmp_path, "export", "plants.csv", "--force").returncode == 0
    assert (tmp_path / "plants.csv").read_text(encoding="utf-8") == ROWS
    assert {path.name for path in tmp_path.iterdir()} - {"plants.db"} == {"plants.csv"}


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


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_largest_plant_that_a_request_stores_can_be_exported_and_imported(
    tmp_path: Path, form: str
) -> None:
    name = "x" * (PLANT_BYTES_MAX - len(f'{{"id":{ID_MIN},"name":""}}'))
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.post(NewPlant(ID_MIN, "a")).status == 200
        path = f"/plants/{ID_MIN}"
        assert client.send("PUT", path, json.dumps({"name": f"{name}x"})).status == 413
        assert client.send("PUT", path, json.dumps({"name": name})).status == 200
        client.close()
    file = f"plants.{form}"
    assert run(tmp_path, "export", file).returncode == 0

    done = run(tmp_path, "import", file, "--database", "sqlite:///other.db")

    assert done.stdout == "1 stored, 0 already there, 0 rejected\n"


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_terminated_export_leaves_no_file_that_looks_complete(
    tmp_path: Path, database: str, ending: signal.Signals
) -> None:
    put_in(database, [NewPlant(id_, "x" * 1000) for id_ in range(100_000)])

    with subprocess.Popen([*PLANTSTORE, "export", "plants.jsonl"], cwd=tmp_path, stderr=-3) as one:
        while not list(tmp_path.glob(".plants.jsonl.*")):
            assert one.poll() is None
        one.send_signal(ending)

    assert one.returncode == (143 if ending == signal.SIGTERM else -signal.SIGKILL)
    assert not (tmp_path / "plants.jsonl").exists()
    if ending == signal.SIGTERM:
        assert not list(tmp_path.glob(".plants.jsonl.*"))
    assert run(tmp_path, "export", "plants.jsonl").returncode == 0


def test_an_export_follows_a_symlink_and_accepts_any_file_name(
    tmp_path: Path, database: str
) -> None:
    put_in(database, list(PLANTS.values()))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "real.csv").write_text("old", encoding="utf-8")
    (tmp_path / "link.csv").symlink_to("folder/real.csv")

    assert run(tmp_path, "export", "link.csv", "--force").returncode == 0
    assert run(tmp_path, "export", "**[1]?.csv").returncode == 0

    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "folder" / "real.csv").read_text(encoding="utf-8") == ROWS
    assert (tmp_path / "**[1]?.csv").read_text(encoding="utf-8") == ROWS


@pytest.mark.parametrize(
    "arguments",
    [
        ["import", "good.csv", "--rejects", "plants.db"],
        ["import", "good.csv", "--rejects", "link.db"],
        ["import", "good.csv", "--rejects", "plants.db-wal"],
        ["export", "plants.db", "--format", "csv", "--force"],
        ["export", "link.db", "--format", "csv", "--force"],
        ["backup", "plants.db", "--force"],
        ["backup", "link.db", "--force"],
        ["backup", "plants.db"],
    ],
)
def test_no_command_overwrites_the_database(
    tmp_path: Path, database: str, arguments: list[str]
) -> None:
    (tmp_path / "good.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "link.db").symlink_to("plants.db")
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.post(NewPlant(9, "a")).status == 200

        done = run(tmp_path, *arguments)

        assert client.post(NewPlant(10, "b")).status == 200
        client.close()

    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1
    assert {9, 10} <= stored_plants(database).keys()


@pytest.mark.parametrize("suffix", ["", "-journal", "-wal", "-shm"])
@pytest.mark.parametrize("before", [[], [NewPlant(9, "a")]], ids=["new", "closed"])
def test_rejected_rows_are_not_written_to_a_file_that_the_store_may_create(
    tmp_path: Path, database: str, suffix: str, before: list[NewPlant]
) -> None:
    (tmp_path / "some.csv").write_text("id,name\n1,a\nx,b\n2,c\n", encoding="utf-8")
    if before:
        put_in(database, before)

    done = run(tmp_path, "import", "some.csv", "--rejects", f"plants.db{suffix}")

    assert (done.returncode, done.stdout) == (2, "")
    assert "is a file of the store itself" in done.stderr
    assert (tmp_path / "plants.db").exists() == bool(before)
    assert not before or sorted(stored_plants(database)) == [9]


def test_an_import_that_cannot_begin_keeps_the_rejects_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "good.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "rejects").write_text("precious", encoding="utf-8")

    done = run(
        tmp_path,
        *("import", "good.csv", "--rejects", "rejects", "--database", "sqlite:///no/such/x.db"),
    )

    assert done.returncode == 1
    assert (tmp_path / "rejects").read_text(encoding="utf-8") == "precious"


def test_an_import_without_a_header_keeps_the_old_rejects_file_and_creates_no_database(
    tmp_path: Path,
) -> None:
    (tmp_path / "bad.csv").write_text("number,name\n", encoding="utf-8")
    (tmp_path / "rejects").write_text("precious", encoding="utf-8")

    done = run(tmp_path, "import", "bad.csv", "--rejects", "rejects")

    assert (done.returncode, done.stdout) == (1, "")
    assert (tmp_path / "rejects").read_text(encoding="utf-8") == "precious"
    assert not (tmp_path / "plants.db").exists()


def test_messages_contain_no_terminal_escape_sequences(tmp_path: Path) -> None:
    (tmp_path / "plants.csv").write_text("id,name\n\x1b]0;owned\x07,a\n", encoding="utf-8")

    done = run(tmp_path, "import", "plants.csv")

    assert "owned" in done.stderr
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    "redirected", ["import - --format csv <&-", "export >&-", "export --format csv - >&-"]
)
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
        (["import", "all_bad.csv", "--rejects", "/dev/full"], "/dev/full cannot be written: No sp"),
        (["import", "nowhere.csv"], "nowhere.csv cannot be read: No such file or directory"),
        (["import", "."], "name the file .csv or .jsonl, or give --format"),
        (["import", ".", "--format", "csv"], ". cannot be read: Is a directory"),
        (["import", "plants.txt"], "name the file .csv or .jsonl, or give --format"),
        (["import", "-"], "name the file .csv or .jsonl, or give --format"),
        (["import", "good.csv", "--rejects", "good.csv"], "good.csv is the file that is imported"),
        (["import", "good.csv", "--rejects", "no/r"], "no/r cannot be written: No such file"),
        (["import", "bad.csv"], "must name the columns id and name"),
        (["import", "good.csv", "--database", "sqlite:///no/p.db"], "No such file or directory"),
        (["export"], "No database at plants.db; `plantstore migrate` creates one"),
        (["export", "a.txt"], "name the file .csv or .jsonl, or give --format"),
        (["export", "no/a.csv", "--database", "sqlite:///other.db"], "no/a.csv cannot be written"),
    ],
)
def test_a_transfer_that_fails_prints_a_one_line_error(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "good.csv").write_text(ROWS, encoding="utf-8")
    (tmp_path / "bad.csv").write_text("number,name\n", encoding="utf-8")
    (tmp_path / "all_bad.csv").write_text("id,name\nx,y\n", encoding="utf-8")
    put_in(f"sqlite:///{tmp_path}/other.db", list(PLANTS.values()))

    done = run(tmp_path, *arguments)

    assert done.returncode == (2 if "--help" in done.stderr else 1)
    [*created, line] = done.stderr.splitlines()
    assert said in line
    assert created in ([], [f"Created the database {tmp_path}/plants.db"])
    assert (tmp_path / "good.csv").read_text(encoding="utf-8") == ROWS


def test_the_memory_of_a_transfer_does_not_grow_with_the_file(tmp_path: Path) -> None:
    peaks = []
    # The small file is large enough to fill SQLite's caches, which have a fixed size.
    for number in (6 * BATCH_PLANTS_MAX, 24 * BATCH_PLANTS_MAX):
        (tmp_path / "plants.csv").write_text(csv_of(many(number)), encoding="utf-8")
        peaks.append(peak_kib(tmp_path, "import", "plants.csv"))
        peaks.append(peak_kib(tmp_path, "export", "plants.csv", "--force"))

    small_import, small_export, large_import, large_export = peaks
    assert large_import < small_import + 10_000
    assert large_export < small_export + 10_000


@pytest.mark.parametrize("arguments", [["import", "plants.csv"], ["export", "plants.jsonl"]])
def test_a_transfer_on_a_terminal_shows_a_progress_bar_with_a_rate(
    tmp_path: Path, database: str, arguments: list[str]
) -> None:
    put_in(database, list(PLANTS.values()))
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")
    ours, theirs = pty.openpty()

    done = subprocess.run(
        [*PLANTSTORE, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=theirs,
        timeout=60,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)

    assert "3 plants" in shown
    assert "/s" in shown
    assert b"plants," not in done.stdout
