"""Nodes of a cluster: Patroni, and the PostgreSQL that it starts and supervises."""

import contextlib
import http.client
import json
import shutil
import signal
import sys
from typing import Any, Self

import yaml

from cluster.page import block, on_loopback
from cluster.processes import Process, kill_all_in, send_to, working_in
from support.postgres import Programs

# The default timeout of a request to Patroni.
ANSWER_SECONDS = 2

# The folder of the archived logs, in the folder of the programs.
ARCHIVE = "archive"

# The ports that the page uses.
POSTGRES_PORT = 5432
REST_PORT = 8008


class Node:
    """A member of the cluster, with its own folder."""

    def __init__(self, programs: Programs, name: str, ports: dict[str, int]) -> None:
        self.name = name
        self.port = ports[f"{name}:{POSTGRES_PORT}"]
        self.rest_port = ports[f"{name}:{REST_PORT}"]
        self.data = programs.folder / name
        path = programs.folder / f"{name}.yml"
        path.write_text(yaml.safe_dump(self._configuration(programs, ports)), encoding="utf-8")
        self.patroni = Process(programs.folder, name, sys.executable, "-m", "patroni", str(path))

    def _configuration(self, programs: Programs, ports: dict[str, int]) -> Any:
        """Return the configuration of the page, adapted to loopback."""
        text = block("patroni.yml").replace("/srv/archive", str(programs.folder / ARCHIVE))
        page = yaml.safe_load(on_loopback(text, ports))
        page["name"] = self.name
        page["restapi"] = dict.fromkeys(
            ("listen", "connect_address"), f"127.0.0.1:{self.rest_port}"
        )
        page["watchdog"]["mode"] = "off"
        page["postgresql"] |= {
            "listen": f"127.0.0.1:{self.port}",
            "connect_address": f"127.0.0.1:{self.port}",
            "data_dir": str(self.data),
            "bin_dir": str(programs.path),
            "pgpass": str(programs.folder / f"{self.name}.pgpass"),
            "parameters": {
                "unix_socket_directories": "",
                "dynamic_shared_memory_type": "mmap",  # in the data folder
            },
        }
        return page

    def __enter__(self) -> Self:
        self.patroni.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def ask(self, method: str, path: str, body: Any = None, seconds: float = ANSWER_SECONDS) -> Any:
        """Send a request to Patroni; return status and text, or None if there is no response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.rest_port, timeout=seconds)
        with (
            contextlib.closing(connection),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        return None

    def is_leader(self) -> bool:
        answer = self.ask("GET", "/primary", seconds=1)
        return answer is not None and answer[0] == 200

    def kill(self) -> None:
        """Kill Patroni and PostgreSQL; Patroni first, so that it does not restart PostgreSQL."""
        self.patroni.kill()
        self.kill_postgres()

    def kill_postgres(self) -> None:
        kill_all_in(self.data)

    def freeze(self) -> None:
        """Suspend all processes of the node."""
        self.patroni.send(signal.SIGSTOP)
        send_to(working_in(self.data), signal.SIGSTOP)

    def thaw(self) -> None:
        send_to(working_in(self.data), signal.SIGCONT)
        self.patroni.send(signal.SIGCONT)

    def lose_disk(self) -> None:
        """Kill the node, and delete its data."""
        self.kill()
        shutil.rmtree(self.data)

    def revive(self) -> None:
        """Start Patroni, which makes the node a standby, whatever data it has."""
        if not self.patroni.is_running:
            self.patroni.kill()
            self.patroni.start()
