"""`plantstore token`, the first token of a service, and where a token may never appear."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.tokens import SCOPES, is_well_formed
from support.command import call
from support.service import PLANTSTORE, Service, opened
from support.wire import escaped, percent

# A redirection of stdout in the shell, and a part of the error message. An empty one stands for
# a pipe whose reader has closed it.
UNWRITABLE = [(">/dev/full", "No space left"), (">&-", "closed"), ("", "Broken pipe")]


def token_names(database: str) -> list[str]:
    with opened(database) as store:
        return [record.name for record in store.list_tokens()]


def test_token_create_prints_only_the_secret_on_stdout(tmp_path: Path) -> None:
    done = call(tmp_path, "token", "create", "garden", "--scope", "all")

    assert done.returncode == 0
    assert is_well_formed(done.stdout.removesuffix("\n"))
    assert done.stdout.strip() not in done.stderr
    assert f"garden for {', '.join(sorted(SCOPES))}. Its secret" in done.stderr


def test_a_token_that_is_revoked_again_keeps_the_time_and_the_message(tmp_path: Path) -> None:
    call(tmp_path, "token", "create", "t")

    first, second = (call(tmp_path, "token", "revoke", "t") for _ in range(2))

    assert re.fullmatch(r"The token t was revoked at \d{4}-\S+Z\.\n", first.stderr)
    assert (second.returncode, second.stderr) == (0, first.stderr)


def test_token_list_shows_each_token_on_one_line_and_no_secret(tmp_path: Path) -> None:
    secret = call(tmp_path, "token", "create", "greenhouse-north", "--expires-in", "30d").stdout
    call(tmp_path, "token", "create", "x" * 100)
    call(tmp_path, "token", "create", "[/][red]x")
    scopes = ("--scope", "plants:read", "--scope", "plants:delete")
    call(tmp_path, "token", "create", "日本", *scopes)
    call(tmp_path, "token", "revoke", "日本")

    rows = json.loads(call(tmp_path, "token", "list", "--json").stdout)
    table = call(tmp_path, "token", "list", COLUMNS="80").stdout

    day, usual_scopes = r"\d{4}-\d\d-\d\d", "plants:create plants:read"
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


# This many consecutive characters of a secret are a leak.
LEAKED_CHARACTERS = 10

Request = tuple[str, str, str | None, dict[str, str]]


# tests/unit/test_tokens.py has more of them.
ENCODINGS: list[Callable[[str], str]] = [str, percent]
IN_JSON: list[Callable[[str], str]] = [str, escaped]

TARGETS = [
    *("/{}", "/plants/{}", "/plants/1{}", "/plants/{padding}{}", "/assets/{}/{}", "/metrics/{}"),
    *("/plants?after={}", "/plants?limit={padding}{}", "/plants?{}=1&{}=2", "/plants/1?{}"),
    # Paddings of different lengths, so that messages truncate the token at different places.
    *(f"/plants?after={'7' * length}{{}}" for length in range(20, 41, 4)),
]

FIELDS = [
    *("Content-Type", "Content-Encoding", "Accept", "If-None-Match", "Range", "traceparent"),
    *("tracestate", "X-Request-Id", "User-Agent", "Referer", "Cookie", "Expect"),
]


def requests_with(token: str) -> Iterator[Request]:
    for encode in ENCODINGS:
        for target in TARGETS:
            yield "GET", target.format(*[encode(token)] * 2, padding="9" * 30), None, {}
        for field in FIELDS:
            yield "POST", "/plants", '{"id":1,"name":"a"}', {field: encode(token)}
    bodies = ['{"id":"@","name":"a"}', '{"id":[1,{"@":"@"}],"name":"a"}', '"@"', '{"id":1,"@":0}']
    for body in (*bodies, "@", '{"id":@,"name":"a"}'):
        for encode in IN_JSON:
            yield "POST", "/plants", body.replace("@", encode(token)), {}
    yield "PUT", f"/plants/{token}", "{}", {}
    yield "OPTIONS", f"/{token}", None, {}
    yield "TRACE", f"/plants?{token}", None, {}
    for value in (token, f"Basic {token}", f"Bearer {token}x", f"Bearer  {percent(token)}"):
        yield "GET", "/plants", None, {"Authorization": value}


def test_no_secret_is_in_a_response_a_metric_the_log_or_the_list_of_processes(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--access-log", "--workers", "2") as service:
        token = service.token()
        with service.client(token) as client, service.client(None) as other:
            answers = [
                each.send(*request) for each in (client, other) for request in requests_with(token)
            ]
            answers.append(client.send("GET", "/metrics"))
        processes = [
            Path(f"/proc/{pid}/{what}").read_bytes()
            for pid in (service.process.pid, *service.children())
            for what in ("cmdline", "environ")
        ]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in service.children()]

    assert not [answer for answer in answers if answer.status >= 500]
    assert not any(token.encode() in process for process in processes)
    # The URL of a database may have a password, and other users can see the command of a worker.
    assert len(commands) == 2
    assert not any(b"plants.db" in command for command in commands)
    assert len(service.log) > len(answers)
    assert service.has_logged("/plants/plst_...")
    said = [f"{answer.headers} {answer.body.decode()}" for answer in answers] + service.log
    said = [text.replace("\\\\", "\\") for text in said]
    secret = token.removeprefix("plst_")
    parts = [secret[at : at + LEAKED_CHARACTERS] for at in range(len(secret) - LEAKED_CHARACTERS)]
    assert not [line for line in said if any(part in line for part in parts)]
    encoded = [encode(part) for part in parts for encode in (percent, escaped)]
    assert not [line for line in said if any(part in line.lower() for part in encoded)]
    with opened(service.database) as store:
        assert store.count_plants() <= 1
