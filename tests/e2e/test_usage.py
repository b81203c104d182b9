"""The command line as people use it: wrong usage, commands that fail, and colors."""

import re
import shlex
import socket
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.tokens import SCOPES, TokenRecord
from support.command import call, on_terminal
from support.service import PLANTSTORE, opened, stored_plants

# An escape sequence that sets a color, alone or with other text attributes (ECMA-48, SGR).
COLOR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("serve --port 70000", 2, "Try 'plantstore serve --help'"),
        ("serve --idle-seconds NaN", 2, "--idle-seconds"),
        ("serve --workers 0", 2, "--workers"),
        (f"serve --host {'x' * 64}.invalid", 2, "--host must be an address"),
        ("serve --rate-per-token often", 2, "--rate-per-token must be"),
        ("serve --allow-origin https://a.example --allow-origin null", 2, 'got "null"'),
        ("serve --trusted-proxy 127.0.0.1 --trusted-proxy *", 2, 'got "*"'),
        ("serve --port 0 --host no.such.host.invalid", 1, "no.such.host.invalid"),
        ("serve --port 0 --database sqlite:///nowhere/plants.db", 1, "No such file"),
        ("serve --port @", 1, "port @: Address already in use; choose another port with --port or"),
        ("import plants.txt", 2, "name the file .csv or .jsonl, or give --format"),
        ("import good.csv --rejects good.csv", 2, "good.csv is the file that is imported"),
        ("check --database mysql://x", 2, "--database must be"),
        ("check --database sqlite:///\udcff.db", 2, "--database must be UTF-8"),
        ("migrate --database sqlite:///:memory:", 2, "would lose every plant"),
        ("backup \udcff.db", 2, "FILE must be UTF-8"),
        ("undo \udcff", 2, "is not the name of a set"),
        ("migrate --database postgresql://a:b@c:x/d", 2, "cannot be read"),
        ("token create ' '", 2, "not blank"),
        ("token create 'a\nb'", 2, "printable"),
        ("token create x --scope plants", 2, "'plants' is not one of 'plants:create'"),
        ("token create x --expires-in 0d", 2, "must be a number above 0, and s, m, h, d or w"),
        ("token create x --standbys-min 1", 2, "--standbys-min needs PostgreSQL"),
        ("token revoke \udcff", 2, "printable"),
        ("sreve", 2, "Did you mean 'serve'?"),
    ],
)
def test_wrong_usage_is_a_one_line_error_and_creates_no_database(
    tmp_path: Path, arguments: str, status: int, said: str
) -> None:
    (tmp_path / "good.csv").write_text("id,name\n1,a\n", encoding="ascii")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])

        done = call(tmp_path, *shlex.split(arguments.replace("@", port)))

    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: ")
    assert said.replace("@", port) in line
    assert [file.name for file in tmp_path.iterdir()] == ["good.csv"]


FILES = {
    "good.csv": "id,name\n1,a\n",
    "bad.csv": "number,name\n",
    "all_bad.csv": "id,name\nx,y\n",
    "old": "precious",
    # SQLite would replay the log of another database into the copy.
    "logged.db-wal": "changes of another database",
    "journaled.db-journal": "changes of another database",
}


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ("token create taken", 1, 'a token named "taken" already'),
        ("token revoke nobody", 1, 'no token named "nobody"'),
        ("undo no-such-set-0123", 1, "--changes-keep 0"),
        ("token create x --database sqlite:///no/where.db", 1, "No such file"),
        ("import all_bad.csv --rejects /dev/full", 1, "/dev/full cannot be written: No space left"),
        ("import good.csv --rejects no/r", 1, "no/r: No such file"),
        ("import bad.csv", 1, "must name the columns id and name"),
        ("export no/a.csv", 1, "no/a.csv cannot be written"),
        ("export a.csv", 1, "tag is empty"),
        ("export loop --format jsonl", 1, "loop exists already"),
        ("export old --format csv", 1, "old exists already; --force overwrites it"),
        ("backup logged.db --force", 1, "logged.db-wal exists: logged.db is in use"),
        ("backup journaled.db --force", 1, "journaled.db-journal exists: journaled.db is in use"),
        ("backup no/copy.db --force", 1, "/no"),
        ("backup .", 1, "is a folder; name a file in it"),
        ("export . --format csv --force", 1, "is a folder; name a file in it"),
        ("import good.csv --rejects plants.db", 2, "is a file of the store itself"),
        ("import good.csv --rejects plants.db-journal", 2, "is a file of the store itself"),
        ("export plants.db --format csv --force", 2, "is a file of the store itself"),
        ("backup plants.db --force", 2, "is a file of the store itself"),
    ],
)
def test_a_command_that_fails_prints_one_line_and_changes_nothing(
    tmp_path: Path, database: str, arguments: str, status: int, said: str
) -> None:
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "loop").symlink_to("loop")
    with opened(database) as store:
        store.apply_changes([NewPlant(9, "a", "")])
        store.add_token(TokenRecord("taken", bytes(32), frozenset(SCOPES), 0))

    done = call(tmp_path, *arguments.split())

    assert done.returncode == status
    # An import that has begun prints its counts.
    assert not done.stdout or done.stdout.startswith("0 stored, ")
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: ")
    assert said in line
    assert stored_plants(database) == {9: NewPlant(9, "a", "")}
    left = {file.name for file in tmp_path.iterdir()}
    assert left - {"plants.db-wal", "plants.db-shm"} == FILES.keys() | {"plants.db", "loop"}
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in FILES} == FILES


@pytest.mark.parametrize("arguments", ["migrate", "token list --json"])
def test_every_command_warns_once_of_a_misspelt_variable(tmp_path: Path, arguments: str) -> None:
    """`serve` logs the warning: its test is in test_serve.py."""
    call(tmp_path, "migrate")

    done = call(tmp_path, *arguments.split(), PLANTSTORE_DATABSE="sqlite:///a.db")

    assert done.returncode == 0
    assert done.stderr == (
        "plantstore: PLANTSTORE_DATABSE is not a setting; did you mean PLANTSTORE_DATABASE?\n"
    )


@pytest.mark.parametrize(
    ("arguments", "env", "said", "colors_and_escapes"),
    [
        ("serve --port 0", {}, "accepting plants", (True, True)),
        ("serve --port 0", {"NO_COLOR": "1"}, "accepting plants", (False, False)),
        ("import good.csv", {"NO_COLOR": ""}, r"Importing.*100%", (False, True)),
    ],
)
def test_the_log_and_the_progress_have_colors_unless_no_color_is_set(
    tmp_path: Path,
    arguments: str,
    env: dict[str, str],
    said: str,
    colors_and_escapes: tuple[bool, bool],
) -> None:
    (tmp_path / "good.csv").write_text(FILES["good.csv"], encoding="utf-8")
    call(tmp_path, "migrate")

    shown = on_terminal(tmp_path, *PLANTSTORE, *arguments.split(), **env)

    assert re.search(said, ESCAPE.sub("", shown))
    assert (bool(COLOR.search(shown)), "\x1b" in shown) == colors_and_escapes
