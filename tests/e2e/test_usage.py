"""The command line as people use it: help pages, completion, wrong usage, tables and colors."""

import re
import shlex
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.command import call, on_terminal
from support.service import PLANTSTORE, opened

# An escape sequence that sets a color, alone or with other text attributes (ECMA-48, SGR).
COLOR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that are named in the wrong commands."""
    folder = tmp_path_factory.mktemp("usage")
    (folder / "good.csv").write_text("id,name\n1,a\n", encoding="ascii")
    return folder


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("serve --port 70000", "Try 'plantstore serve --help'"),
        ("serve --idle-seconds NaN", "--idle-seconds"),
        ("import plants.txt", "name the file .csv or .jsonl, or give --format"),
        ("import good.csv --rejects good.csv", "good.csv is the file that is imported"),
        ("check --database mysql://x", "--database must be"),
        ("check --database sqlite:///\udcff.db", "--database must be UTF-8"),
        ("migrate --database sqlite:///:memory:", "would lose every plant"),
        ("migrate --database postgresql://a:b@c:x/d", "cannot be read"),
        ("token create ' '", "not blank"),
        ("token create 'a\nb'", "printable"),
        ("token create x --scope plants", "'plants' is not one of 'plants:create'"),
        ("token create x --expires-in 0d", "must be a number above 0, and s, m, h, d or w"),
        ("token create x --expires-in 9999999999w", "year 9999"),
        ("token create x --standbys-min 1", "--standbys-min needs PostgreSQL"),
        ("token revoke \udcff", "printable"),
        ("sreve", "Did you mean 'serve'?"),
    ],
)
def test_wrong_usage_is_a_one_line_error_with_status_2(
    folder: Path, arguments: str, said: str
) -> None:
    done = call(folder, *shlex.split(arguments))

    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: ")
    assert said in line


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
        ("import plants.csv", {"NO_COLOR": ""}, r"Importing.*100%", (False, True)),
    ],
)
def test_the_log_and_the_progress_have_colors_unless_no_color_is_set(
    tmp_path: Path,
    arguments: str,
    env: dict[str, str],
    said: str,
    colors_and_escapes: tuple[bool, bool],
) -> None:
    (tmp_path / "plants.csv").write_text("id,name\n1,a\n", encoding="utf-8")
    with opened(f"sqlite:///{tmp_path}/plants.db") as store:
        store.apply_changes([NewPlant(1, "a")])

    shown = on_terminal(tmp_path, *PLANTSTORE, *arguments.split(), **env)

    assert re.search(said, ESCAPE.sub("", shown))
    assert (bool(COLOR.search(shown)), "\x1b" in shown) == colors_and_escapes
