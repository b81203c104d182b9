"""Limits on connections: timeouts, and accepting them."""

import contextlib
import resource
from pathlib import Path

import pytest

from support.service import Service
from support.wire import Wire

PATIENCE = 1
pytestmark = pytest.mark.serve("--request-seconds", str(PATIENCE), "--idle-seconds", str(PATIENCE))

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


def test_without_free_file_descriptors_new_connections_wait_and_open_ones_are_served(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service, service.client(None) as connected:
        assert connected.send("GET", "/healthz").status == 200
        pid = service.process.pid
        files_max = len(service.open_files()) + 5
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files_max, files_max))

        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(Wire(service.port))
            assert connected.send("GET", "/healthz").status == 200

        with service.client(None) as new:
            assert new.send("GET", "/healthz").status == 200
