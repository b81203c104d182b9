"""`plantstore token`, and its effect on a running service."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.tokens import is_well_formed
from support.service import PLANTSTORE, Service


def token(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PLANTSTORE, "token", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_token_create_prints_only_the_secret_on_stdout(tmp_path: Path) -> None:
    done = token(tmp_path, "create", "garden")

    assert done.returncode == 0
    assert is_well_formed(done.stdout.removesuffix("\n"))
    assert done.stdout.strip() not in done.stderr
    assert "garden" in done.stderr


@pytest.mark.engines("sqlite", "postgres")
def test_token_list_shows_every_token_and_no_secret(tmp_path: Path) -> None:
    secret = token(tmp_path, "create", "garden", "--expires-in", "30d").stdout.strip()
    token(tmp_path, "create", "b", "--scope", "plants:read", "--scope", "plants:delete")
    token(tmp_path, "revoke", "b")

    rows = json.loads(token(tmp_path, "list", "--json").stdout)
    table = token(tmp_path, "list").stdout

    by_name = {row["name"]: row for row in rows}
    assert by_name["garden"]["state"] == "active"
    assert by_name["garden"]["scopes"] == ["plants:create", "plants:read"]
    assert by_name["garden"]["expires"] > by_name["garden"]["created"]
    assert by_name["b"]["state"] == "revoked"
    assert by_name["b"]["scopes"] == ["plants:delete", "plants:read"]
    assert "garden" in table
    assert "revoked" in table
    assert secret not in table + json.dumps(rows)


def test_a_token_name_that_looks_like_markup_is_shown_unchanged(tmp_path: Path) -> None:
    token(tmp_path, "create", "[/][red]x")

    listed = token(tmp_path, "list")

    assert listed.returncode == 0
    assert "[/][red]x" in listed.stdout


def test_revoking_a_token_again_succeeds_and_says_so(tmp_path: Path) -> None:
    token(tmp_path, "create", "garden")

    assert "Revoked the token garden" in token(tmp_path, "revoke", "garden").stderr
    again = token(tmp_path, "revoke", "garden")

    assert again.returncode == 0
    assert "was revoked already" in again.stderr


@pytest.mark.parametrize(
    ("options", "said", "status"),
    [
        (["create", "taken"], "a token named 'taken' already", 1),
        (["create", "a\nb"], "printable", 2),
        (["create", "x", "--expires-in", "0d"], "0d", 2),
        (["revoke", "\udcff"], "printable", 2),
        (["revoke", "nobody"], "no token named 'nobody'", 1),
        (["create", "x", "--database", "sqlite:///no/where.db"], "No such file", 1),
    ],
)
def test_a_token_command_that_fails_prints_a_one_line_error(
    tmp_path: Path, options: list[str], said: str, status: int
) -> None:
    token(tmp_path, "create", "taken")

    done = token(tmp_path, *options)

    assert (done.returncode, done.stdout) == (status, "")
    [line] = done.stderr.splitlines()
    assert said in line


@pytest.mark.engines("sqlite", "postgres")
def test_a_running_service_refuses_a_token_that_another_process_revoked(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        secret = token(tmp_path, "create", "garden").stdout.strip()
        client = service.client(secret)
        assert client.post(NewPlant(1, "a")).status == 200

        token(tmp_path, "revoke", "garden")
        # tests/api tests the delay with an injected clock. This test checks only that the
        # service refuses the token at some time.
        answers = (client.post(NewPlant(1, "a")) for _ in range(100_000))
        refused = next(answer for answer in answers if answer.status != 200)

        assert refused.json["message"] == "The token is revoked"
        client.close()


def test_a_running_service_accepts_a_new_token_at_once_and_refuses_an_expired_one(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        good = service.client(service.token(name="good", expires_at=int(time.time()) + 60))
        expired = service.client(service.token(name="expired", expires_at=int(time.time()) - 1))

        assert good.post(NewPlant(1, "a")).status == 200
        assert expired.post(NewPlant(2, "b")).status == 401
        good.close()
        expired.close()
