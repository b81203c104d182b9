"""The metrics and log lines of a running service."""

import contextlib
import json
import resource
from pathlib import Path
from typing import Any

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import wait_until
from support.service import Service

TRACE = "0af7651916cd43dd8448eb211c80319c"


def refusals(service: Service) -> list[dict[str, Any]]:
    """Return the log lines about refusals."""
    return [json.loads(line) for line in service.log if '"refused"' in line]


@pytest.mark.engines("sqlite", "postgres")
def test_the_metrics_are_summed_over_all_workers(tmp_path: Path) -> None:
    posts = {"http_route": "/plants", "http_request_method": "POST"}
    with Service(tmp_path, "--workers", "2") as service:
        token = service.token()
        load = Load(service, token, 0)
        load.wait_for_more(200)
        load.stop()
        sent = len(load.acknowledged)
        client = service.client(token)

        wait_until(lambda: client.total("plantstore_changes_total", outcome="stored") == sent)
        name = "http_server_request_duration_seconds_count"
        wait_until(lambda: client.total(name, http_response_status_code="200", **posts) == sent)
        wait_until(lambda: client.total("plantstore_batch_changes_sum") == sent)
        _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
        processes = len(service.spawned())
        wait_until(lambda: client.total("process_max_fds") == processes * files_max)
        assert client.post(NewPlant(1, "another")).status == 400
        wait_until(lambda: client.total("plantstore_refused_total", reason="id_taken") == 1)
        client.close()


def test_the_access_log_has_each_request_with_its_trace_id_and_its_peer_and_no_secret(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--access-log", "--trusted-proxy", "10.0.0.0/8") as service:
        token = service.token()
        fields = {
            "traceparent": f"00-{TRACE}-{'b' * 16}-01",
            "X-Forwarded-For": "203.0.113.9",
            "X-Forwarded-Proto": "https",
        }
        with contextlib.closing(service.client(token)) as client:
            assert client.send("GET", "/plants?after=secret", headers=fields).status == 400
            assert client.send("GET", f"/plants?access_token={token}").status == 400

    requests = [json.loads(line) for line in service.log if '"request"' in line]
    assert [(line["path"], line["status"], line.get("request_id")) for line in requests] == [
        ("/plants", 400, TRACE),
        ("/plants", 400, None),
    ]
    assert {(line["client"], line["scheme"]) for line in requests} == {("127.0.0.1", "http")}
    assert not any("secret" in line or token in line for line in service.log)


def test_a_burst_of_refusals_is_counted_in_few_log_lines(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--rate-per-token", "1/hour") as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        assert client.send("GET", "/plants").status == 200

        def is_counted() -> bool:
            client.send("GET", "/plants")
            return any("more" in line for line in refusals(service))

        wait_until(is_counted)

    first, second = refusals(service)
    assert first["reason"] == second["reason"] == "rate_exceeded"
    assert "more" not in first
    assert second["more"] > 10
