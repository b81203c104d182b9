"""The settings for trusted proxies and for the web pages that may call the service."""

import json
from pathlib import Path

import pytest

from support.command import run
from support.postgres import wait_until
from support.service import Service

GARDEN, OTHER = "https://garden.example", "https://other.example"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--allow-origin", f"{GARDEN}/app"], "--allow-origin must be an origin such as"),
        (["--allow-origin", GARDEN, "--allow-origin", "null"], "got 'null'"),
        (["--trusted-proxy", "10.0.0.1/8"], "--trusted-proxy must be an address such as"),
        (["--trusted-proxy", "*"], "got '*'"),
        (["--trusted-proxy", "127.0.0.1", "--trusted-proxy", "lb.example"], "got 'lb.example'"),
    ],
)
def test_an_invalid_origin_or_proxy_is_a_one_line_error_and_creates_no_database(
    tmp_path: Path, options: list[str], said: str
) -> None:
    done = run(tmp_path, "serve", "--port", "0", *options)

    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert said in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", ["1", "2"])
def test_several_origins_and_proxies_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PLANTSTORE_ALLOW_ORIGIN", f"{GARDEN} {OTHER}")
    monkeypatch.setenv("PLANTSTORE_TRUSTED_PROXY", "10.0.0.0/8 127.0.0.0/8")
    asked = {"Origin": OTHER, "X-Forwarded-For": "203.0.113.9", "X-Request-Id": "from-the-proxy"}
    with Service(tmp_path, "--access-log", "--workers", workers) as service:
        client = service.client(service.token())
        answer = client.send("GET", "/plants", headers=asked)
        client.close()
        wait_until(lambda: any('"request"' in line for line in service.log))

    assert answer.headers["access-control-allow-origin"] == OTHER
    [line] = [json.loads(line) for line in service.log if '"request"' in line]
    assert (line["client"], line["request_id"]) == ("203.0.113.9", "from-the-proxy")


def test_the_access_log_has_the_peer_unless_it_is_a_trusted_proxy(tmp_path: Path) -> None:
    lies = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    with Service(tmp_path, "--access-log", "--trusted-proxy", "10.0.0.0/8") as service:
        client = service.client(service.token())
        assert client.send("GET", "/plants", headers=lies).status == 200
        client.close()
        wait_until(lambda: any('"request"' in line for line in service.log))

    [line] = [json.loads(line) for line in service.log if '"request"' in line]
    assert (line["client"], line["scheme"]) == ("127.0.0.1", "http")
