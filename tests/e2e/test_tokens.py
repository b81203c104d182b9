"""`plantstore token`, its effect on a running service, and the first token of a service."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from plantstore.cli.opening import database_option
from plantstore.settings import Settings
from plantstore.tokens import SCOPES, is_well_formed
from support.command import call, run
from support.service import PLANTSTORE, Service, opened

# A redirection of stdout in the shell, and a part of the error message. An empty one stands for
# a pipe whose reader has closed it.
UNWRITABLE = [(">/dev/full", "No space left"), (">&-", "closed"), ("", "Broken pipe")]


def token_names(database: str) -> list[str]:
    with opened(database) as store:
        return [record.name for record in store.list_tokens()]


def test_token_create_prints_only_the_secret_on_stdout(tmp_path: Path) -> None:
    done = run(tmp_path, "token", "create", "garden", "--scope", "all")

    assert done.returncode == 0
    assert is_well_formed(done.stdout.removesuffix("\n"))
    assert done.stdout.strip() not in done.stderr
    assert f"garden for {', '.join(sorted(SCOPES))}. Its secret" in done.stderr


def test_token_list_shows_each_token_on_one_line_and_no_secret(tmp_path: Path) -> None:
    secret = call(tmp_path, "token", "create", "greenhouse-north", "--expires-in", "30d").stdout
    usual = run(tmp_path, "token", "list").stdout.splitlines()
    call(tmp_path, "token", "create", "x" * 100)
    call(tmp_path, "token", "create", "[/][red]x")
    scopes = ("--scope", "plants:read", "--scope", "plants:delete")
    call(tmp_path, "token", "create", "日本", *scopes)
    call(tmp_path, "token", "revoke", "日本")

    rows = json.loads(call(tmp_path, "token", "list", "--json").stdout)
    table = call(tmp_path, "token", "list", COLUMNS="80").stdout

    day, usual_scopes = r"\d{4}-\d\d-\d\d", "plants:create plants:read"
    assert all(len(line) <= 80 for line in usual)
    assert re.fullmatch(r"NAME +STATE +CREATED +ENDS +SCOPES", table.splitlines()[0])
    for line in (
        rf"greenhouse-north +active +{day}  {day}  {usual_scopes}",
        rf"x{{100}}  active +{day}  - +{usual_scopes}",
        rf"\[/\]\[red\]x +active +{day}  - +{usual_scopes}",
        rf"日本 +revoked  {day}  {day}  plants:delete plants:read",
    ):
        assert len(re.findall(f"^{line}$", table, re.MULTILINE)) == 1
    by_name = {row["name"]: row for row in rows}
    assert by_name["日本"]["state"] == "revoked"
    assert by_name["greenhouse-north"]["state"] == "active"
    assert by_name["greenhouse-north"]["scopes"] == ["plants:create", "plants:read"]
    assert by_name["greenhouse-north"]["expires"] > by_name["greenhouse-north"]["created"]
    assert secret.strip() not in table + json.dumps(rows)


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (Settings().database, ""),
        ("sqlite:///a b.db", " --database 'sqlite:///a b.db'"),
        # Without the option, the command would create a token in a file. The URL may be secret.
        ("postgresql://ann:secret@h/d", " --database URL"),
    ],
)
def test_a_command_in_a_message_names_the_database_that_is_in_use(given: str, option: str) -> None:
    assert database_option(given) == option


def test_a_list_without_tokens_names_the_command_that_creates_one(tmp_path: Path) -> None:
    option = ("--database", "sqlite:///a b.db")
    call(tmp_path, "migrate", *option)

    said = call(tmp_path, "token", "list", *option).stderr
    [command] = re.findall(r"plantstore (token create .*)", said)

    assert call(tmp_path, *shlex.split(command)).returncode == 0
    assert token_names(f"sqlite:///{tmp_path}/a b.db") == ["NAME"]


def start(folder: Path, redirection: str, *command: str) -> subprocess.Popen[str]:
    """Start a command with its stdout redirected by the shell."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return subprocess.Popen(
            ["sh", "-c", f"exec {shlex.join([*PLANTSTORE, *command])} {redirection}"],
            cwd=folder,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writer)


@pytest.mark.parametrize(("redirection", "said"), UNWRITABLE)
def test_token_create_with_an_unwritable_stdout_is_a_one_line_error_and_creates_no_token(
    tmp_path: Path, database: str, redirection: str, said: str
) -> None:
    with start(tmp_path, redirection, "token", "create", "a") as process:
        _, errors = process.communicate(timeout=60)

    *created, line = errors.splitlines()
    assert all(each.startswith("Created the database") for each in created)
    assert process.returncode == 1
    assert line.startswith("plantstore: ")
    assert said in line
    assert token_names(database) == []


def test_serve_with_an_unwritable_stdout_leaves_the_first_token_to_the_next_start(
    tmp_path: Path, database: str
) -> None:
    with start(tmp_path, ">&-", "serve", "--port", "0") as process:
        assert process.stderr is not None
        warned = ""
        while "Serving" not in warned:
            line = process.stderr.readline()
            assert line, warned
            warned += line
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "plantstore token create NAME --scope all" in warned
    assert "Traceback" not in errors
    assert token_names(database) == []
    with Service(tmp_path) as service:
        pass
    shown = re.findall(r"plst_\w+", service.said)
    assert shown
    assert all(map(is_well_formed, shown))
    assert token_names(database) == ["first"]
