"""The command line as people use it: help pages, completion, wrong usage, tables and colors."""

import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plantstore.cli import app
from support.certificates import make_pair
from support.command import run
from support.service import PLANTSTORE, opened

NARROW = os.environ | {"COLUMNS": "80"}

# An escape sequence that sets a color, alone or with other text attributes (ECMA-48, SGR).
COLOR = re.compile(r"\x1b\[(?:\d+;)*(?:3|4|9|10)\d")


def commands(command: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command and command group with the words that call it."""
    yield names, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, *names, name)


COMMANDS = dict(commands(app))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that are named in the wrong commands."""
    folder = tmp_path_factory.mktemp("usage")
    make_pair(folder).certificate.rename(folder / "good.pem")
    (folder / "bad.pem").write_text("roses are red", encoding="ascii")
    (folder / "good.csv").write_text("id,name\n1,a\n", encoding="ascii")
    return folder


def refused(folder: Path, *arguments: str) -> str:
    """Run a command whose usage is wrong; return the one line that it prints."""
    done = run(folder, *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: ")
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("serve --database mysql://root@localhost/garden", "--database must be sqlite:///FILE"),
        ("serve --database plants.db", "for the file plants.db, give sqlite:///plants.db"),
        ("serve --database ./a/plants.db", "give sqlite:///./a/plants.db"),
        ("serve --database sqlite:///:memory:", "would lose every plant"),
        ("serve --database postgresql://a:b@c:x/d", "cannot be read"),
        ("serve --standbys-min 1", "--standbys-min needs PostgreSQL"),
        ("serve --rate-per-token often", "--rate-per-token must be"),
        ("serve --rate-per-token 0/second", "--rate-per-token must be"),
        ("serve --tls-certificate bad.pem", "must name a certificate and its private key, in PEM"),
        ("serve --tls-certificate good.pem --tls-key bad.pem", "must name a certificate"),
        ("serve --tls-key bad.pem", "--tls-key needs --tls-certificate"),
        ("serve --tls-certificate nowhere.pem", "does not exist"),
        ("serve --port 70000", "--port"),
        ("serve --port x", "'x' is not a valid whole number"),
        ("serve --port \u0663", "is not a valid whole number"),
        ("serve --idle-seconds nan", "'nan' is not a valid number"),
        ("serve --prt 8000", "Did you mean '--port'?"),
        ("serve --seconds 1", "Did you mean one of"),
        ("serve --access-log=yes", "does not take a value"),
        ("serve extra", "unexpected extra argument (extra)"),
        (f"serve --host {'x' * 64}.invalid", "--host must be an address"),
        ("import", "'FILE'"),
        ("import good.csv more.csv", "unexpected extra argument (more.csv)"),
        ("import good.csv --format xml", "'xml' is not one of 'csv', 'jsonl'"),
        ("import plants.txt", "name the file .csv or .jsonl, or give --format"),
        ("import - --database sqlite:///a.db", "give --format"),
        ("import good.csv --rejects good.csv", "good.csv is the file that is imported"),
        ("import good.csv --database mysql://x", "--database must be"),
        ("export plants.txt", "give --format"),
        ("backup copy.db --database plants.db", "give sqlite:///plants.db"),
        ("check --database mysql://x", "--database must be"),
        ("check --database sqlite:///\udcff.db", "--database must be UTF-8"),
        ("migrate --database mysql://x", "--database must be"),
        ("token", "Missing command"),
        ("token nonsense", "nonsense"),
        ("token create", "'NAME'"),
        ("token create ' '", "not blank"),
        ("token create x --scope plants:eat", "plants:eat"),
        ("token create x --expires-in soon", "soon"),
        ("token create x --expires-in 9999999999w", "year 9999"),
        ("token list --database mysql://x", "--database must be"),
        ("token revoke ' '", "not blank"),
        ("nonsense", "nonsense"),
        ("sreve", "Did you mean 'serve'?"),
        ("--nonsense", "--nonsense"),
    ],
)
def test_wrong_usage_exits_with_status_2_and_names_the_help_of_its_command(
    folder: Path, arguments: str, said: str
) -> None:
    line = refused(folder, *shlex.split(arguments))

    assert said in line
    assert not re.search(r"[.?]\)?[.?]", line)
    [command] = re.findall(r"[.?]\)? Try 'plantstore ?(.*?) ?--help'$", line)
    words = [
        word for word in arguments.split() if (word,) in COMMANDS or word in ("create", "list")
    ]
    assert command.split()[:1] == words[:1]


def test_an_invalid_environment_variable_exits_with_status_2(tmp_path: Path) -> None:
    env = os.environ | {"PLANTSTORE_RATE_PER_TOKEN": "often"}

    done = run(tmp_path, "serve", env=env)

    assert done.returncode == 2
    assert "Try 'plantstore serve --help'" in done.stderr


def test_an_error_about_a_database_url_does_not_print_its_password(tmp_path: Path) -> None:
    for url in ("mysql://root:secret@localhost", "host=localhost password=secret", "a:secret@b"):
        assert "secret" not in refused(tmp_path, "check", "--database", url)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_help_page_at_80_columns_truncates_and_breaks_no_word(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    said = run(tmp_path, *words, "--help", env=NARROW).stdout
    short = run(tmp_path, *words, "-h", env=NARROW).stdout

    command = COMMANDS[words]
    shown = set(re.split(r"[\s\[\];,./]+", said))
    names = {name for each in command.params for name in [*each.opts, each.envvar] if name}
    in_texts = re.findall(r"(?<!\S)--[a-z-]+|plants:[a-z]+|metrics:read", command.help + said)
    assert all(len(line) <= 80 for line in said.splitlines())
    assert names | {*in_texts} <= shown
    assert not re.search(r"…|\.{3}$|\w-$", said.replace("[ARGS]...", ""), re.MULTILINE)
    assert short == said


def test_shell_completion_works_in_bash(tmp_path: Path) -> None:
    plantstore = Path(sys.executable).with_name("plantstore")
    script = f"""
        eval "$({plantstore} --show-completion bash)"
        COMP_WORDS=({plantstore} serve --drain) COMP_CWORD=2
        _plantstore_completion {plantstore}
        printf '%s\\n' "${{COMPREPLY[@]}}"
        COMPREPLY=() COMP_WORDS=({plantstore} token '') COMP_CWORD=2
        _plantstore_completion {plantstore}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """

    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.split() == ["--drain-seconds", "create", "list", "revoke"]


def test_token_list_shows_each_token_on_one_line_with_full_dates(tmp_path: Path) -> None:
    run(tmp_path, "token", "create", "greenhouse", "--expires-in", "30d")
    run(tmp_path, "token", "create", "x" * 100)
    run(tmp_path, "token", "create", "日本", "--scope", "metrics:read")
    run(tmp_path, "token", "revoke", "日本")

    said = run(tmp_path, "token", "list", env=NARROW).stdout.splitlines()

    day = r"\d{4}-\d\d-\d\d"
    assert said[0].split() == ["NAME", "STATE", "CREATED", "ENDS", "SCOPES"]
    assert re.fullmatch(rf"greenhouse +active +{day}  {day}  plants:create plants:read", said[1])
    assert re.fullmatch(rf"x{{100}}  active +{day}  - +plants:create plants:read", said[2])
    assert re.fullmatch(rf"日本 +revoked  {day}  {day}  metrics:read", said[3])
    assert len(said) == 4


def test_token_list_fits_80_columns_for_names_of_usual_length(tmp_path: Path) -> None:
    run(tmp_path, "token", "create", "greenhouse-north", "--expires-in", "30d")

    assert all(len(line) <= 80 for line in run(tmp_path, "token", "list").stdout.splitlines())


def on_terminal(folder: Path, *arguments: str, **env: str) -> str:
    """Run `plantstore` with stderr on a terminal; return the output on the terminal."""
    ours, theirs = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [*PLANTSTORE, *arguments],
        cwd=folder,
        env=base | {"TERM": "xterm-256color"} | env,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    ) as process:
        os.close(theirs)
        shown = b""
        while b"accepting plants" not in shown:
            try:
                shown += os.read(ours, 100_000)
            except OSError:  # end of output: the process has closed the terminal
                break
        process.terminate()
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize(
    ("env", "colors", "escapes"),
    [
        ({}, True, True),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
    ],
)
def test_the_log_on_a_terminal_has_colors_unless_no_color_or_a_dumb_terminal_is_set(
    tmp_path: Path,
    env: dict[str, str],
    colors: bool,  # noqa: FBT001
    escapes: bool,  # noqa: FBT001
) -> None:
    shown = on_terminal(tmp_path, "serve", "--port", "0", **env)

    assert "accepting plants" in shown
    assert bool(COLOR.search(shown)) is colors
    assert ("\x1b" in shown) is escapes


@pytest.mark.parametrize(
    ("env", "escapes"),
    [({}, True), ({"TERM": "dumb"}, False)],
)
def test_a_command_overwrites_its_progress_unless_the_terminal_is_dumb(
    tmp_path: Path,
    env: dict[str, str],
    escapes: bool,  # noqa: FBT001
) -> None:
    with opened(f"sqlite:///{tmp_path}/plants.db"):
        pass

    shown = on_terminal(tmp_path, "export", "plants.jsonl", **env)

    assert "Exported 0 plants" in shown
    assert ("\x1b" in shown) is escapes
