"""The metrics of a running service."""

import resource
from pathlib import Path

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import wait_until
from support.service import serving


def test_the_metrics_are_summed_over_all_workers(tmp_path: Path) -> None:
    posts = {"http_route": "/plants", "http_request_method": "POST"}
    with serving(tmp_path, "--workers", "2") as (service, client):
        load = Load(service, service.token(name="load"), 0)
        load.wait_for_more(200)
        load.stop()
        sent = len(load.acknowledged)

        wait_until(lambda: client.total("plantstore_changes_total", outcome="stored") == sent)
        name = "http_server_request_duration_seconds_count"
        wait_until(lambda: client.total(name, http_response_status_code="200", **posts) == sent)
        wait_until(lambda: client.total("plantstore_batch_changes_sum") == sent)
        _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
        processes = len(service.children())
        wait_until(lambda: client.total("process_max_fds") == processes * files_max)
        assert client.post(NewPlant(1, "another")).status == 400
        wait_until(lambda: client.total("plantstore_refused_total", reason="id_taken") == 1)
