"""The health check script of the container image, run outside a container."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from plantstore.plants import NewPlant
from support.certificates import make_pair
from support.command import run_program
from support.service import Service, serving

HEALTHCHECK = Path(__file__).parent.parent.parent / "deploy/healthcheck.py"
NO_PROXY = {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}


def check(port: int, **variables: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PLANTSTORE_PORT": str(port)} | variables
    return run_program(sys.executable, HEALTHCHECK, env=env, timeout=30)


def test_a_service_that_is_not_ready_is_healthy_whatever_http_proxy_is_set(tmp_path: Path) -> None:
    with serving(tmp_path) as (service, client):
        (tmp_path / "plants.db-wal").rename(tmp_path / "moved")
        assert client.post(NewPlant(1, "Rosa")).status == 503
        ready = client.send("GET", "/readyz")

        result = check(service.port, **NO_PROXY)
        (tmp_path / "moved").rename(tmp_path / "plants.db-wal")

    assert (ready.status, result.returncode, result.stderr) == (503, 0, "")


def test_a_service_with_tls_is_healthy(tmp_path: Path) -> None:
    pair = make_pair(tmp_path)
    tls = ("--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key))
    with Service(tmp_path, *tls) as service:
        result = check(service.port, PLANTSTORE_TLS_CERTIFICATE=tls[1])

    assert (result.returncode, result.stderr) == (0, "")


def test_a_port_without_an_answer_is_unhealthy_and_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        waited = check(port)
    refused = check(port)

    assert (waited.returncode, refused.returncode) == (1, 1)
    assert waited.stderr == f"http://localhost:{port}/healthz does not answer: timed out\n"
    assert refused.stderr.startswith(f"http://localhost:{port}/healthz does not answer: ")
    assert refused.stderr.count("\n") == 1
