"""How fast is `plantstore import`, compared with the sqlite3 shell and sqlite-utils?

    python benchmarks/transfer.py [plants.csv ...]

Each program in turn imports 300,000 generated plants, and each given file, into an empty store, or
into an empty table of an id, a name and a tag. The shell and sqlite-utils validate nothing, and
make no checksums and no change set. They index nothing; in one of the rows, the shell then fills an
index like that of this service. Then ten million plants are exported, and the memory of the export
is measured.
"""

import contextlib
import csv
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from harness import fill, make_token, peak_mib, spread, table, write_result

ROUNDS = 3
PLANTS = 300_000
EXPORTED = 10_000_000
BARS = {
    "sqlite3 .import": "≥ 0.4",
    "sqlite3 .import with the same index": "≥ 0.6",
    "sqlite-utils insert --csv": "≥ 4",
}
PROGRAMS = ("plantstore import", *BARS)

# The table of the shell and of sqlite-utils.
TABLE = "CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)"

# The words of a name, its tag, and the key of its place in order by name, with the same beginnings.
KEY = "replace(replace(replace(replace(lower({}), ' ', '0'), '(', ''), ')', ''), '.', '')"
WORDS = f"name || ' ____t' || {KEY.format('tag')} || ' ____k' || {KEY.format('name')}"
OPTIONS = "content='', columnsize=0, detail=none, prefix='1 3 4', tokenize='ascii tokenchars _'"
INDEX = (
    f"CREATE VIRTUAL TABLE plant_words USING fts5(words, {OPTIONS})",
    f"INSERT INTO plant_words (rowid, words) SELECT id, {WORDS} FROM plants",
)


def generate(file: Path, plants: int = PLANTS) -> None:
    with file.open("w", encoding="utf-8", newline="") as lines:
        rows = csv.writer(lines, lineterminator="\n")
        rows.writerow(["id", "name", "tag"])
        for id_ in range(1, plants + 1):
            tag = "" if id_ % 3 == 0 else f"Genus {id_ % 500}"
            rows.writerow([id_, f"Abies balsamea (L.) Mill. × {id_}", tag])


def command(program: str, database: Path, file: Path) -> list[str]:
    if program == "plantstore import":
        url = f"sqlite:///{database}"
        return [sys.executable, "-m", "plantstore", "import", str(file), "--database", url]
    if program.startswith("sqlite3"):
        shell = shutil.which("sqlite3")
        if shell is None:
            sys.exit("This benchmark needs the sqlite3 shell: apt-get install sqlite3")
        index = INDEX if "index" in program else ()
        return [shell, str(database), f".import --csv --skip 1 {file} plants", *index]
    tool = str(Path(sys.executable).with_name("sqlite-utils"))
    return [tool, "insert", str(database), "plants", str(file), "--csv", "--silent"]


def measure(program: str, folder: Path, file: Path, expected: int) -> float:
    """Return the seconds that a program takes to import a file."""
    database = folder / "plants.db"
    if program == "plantstore import":
        make_token(database)
    else:
        with contextlib.closing(sqlite3.connect(database)) as connection:
            connection.execute(TABLE)
    began = time.perf_counter()
    subprocess.run(command(program, database, file), check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    with contextlib.closing(sqlite3.connect(database)) as connection:
        [[stored]] = connection.execute("SELECT count(*) FROM plants")
    if stored != expected:
        raise RuntimeError(f"{program} stored {stored} plants")
    for left in folder.glob("plants.db*"):
        left.unlink()
    return seconds


def start(program: str) -> float:
    """Return the seconds that a program takes to start and print its version."""
    words = command(program, Path("plants.db"), Path("plants.csv"))
    version = [words[0], *(["-m", "plantstore"] if "-m" in words else []), "--version"]
    began = time.perf_counter()
    subprocess.run(version, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def compare(folder: Path, file: Path) -> list[list[str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        expected = sum(1 for _ in csv.reader(lines)) - 1
    seconds: dict[str, list[float]] = {program: [] for program in PROGRAMS}
    for _ in range(ROUNDS):
        for program in PROGRAMS:
            seconds[program].append(measure(program, folder, file, expected))
    ours, *others = PROGRAMS
    rows = []
    for program, bar in zip(others, BARS.values(), strict=True):
        ratios = [b / a for a, b in zip(seconds[ours], seconds[program], strict=True)]
        medians = f"{median(seconds[ours]):.2f} s, {median(seconds[program]):.2f} s"
        rows.append([f"{expected:,}", f"{ours} ÷ {program}", spread(ratios), bar, medians])
    return rows


def main(files: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generated = folder / "generated.csv"
        generate(generated)
        rows = [row for file in (generated, *files) for row in compare(folder, file)]
        full = folder / "full.db"
        fill(full, EXPORTED)
        began = time.perf_counter()
        mib = peak_mib("export", str(folder / "full.csv"), "--database", f"sqlite:///{full}")
        seconds = time.perf_counter() - began
    speeds = table(["plants", "ratio of rates", "measured", "bar", "times of both"], rows)
    starts = ", ".join(
        f"{program} {median([start(program) for _ in range(5)]):.2f} s" for program in PROGRAMS
    )
    memory = table(
        ["figure", "measured", "bar"],
        [
            [f"peak memory of an export of {EXPORTED:,} plants", f"{mib:.0f} MiB", "≤ 150 MB"],
            ["plants exported per second", f"{EXPORTED / seconds:,.0f}", "-"],
        ],
    )
    about = (
        "These times include the start of the program. Starting it to print its version takes: "
        f"{starts}."
    )
    write_result("transfer", f"# Import and export\n\n{speeds}\n\n{about}\n\n{memory}")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
