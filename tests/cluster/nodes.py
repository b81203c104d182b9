"""Nodes of a cluster: programs that run until a block ends, as Patroni, which starts PostgreSQL."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import yaml

from cluster.page import block, on_loopback
from support.postgres import NOBODY, Programs, wait_until

# The default timeout of a request to Patroni.
ANSWER_SECONDS = 2

# The folder of the archived logs, in the folder of the programs.
ARCHIVE = "archive"

# The ports that the page uses.
POSTGRES_PORT = 5432
REST_PORT = 8008


def unprivileged(command: Sequence[str]) -> list[str]:
    """Return a command that runs as the user of PostgreSQL, and may still read Python's files.

    PostgreSQL refuses to run as root, and Patroni starts it as its own user. That user cannot read
    root's folders, so the command keeps the one capability that allows this.
    """
    if os.geteuid():
        return list(command)
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *user, "--inh-caps=+dac_override", "--ambient-caps=+dac_override", *command]


class Process:
    """A program with a log file; it is killed when the block ends."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.command = unprivileged(command)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        assert self._process is None
        env = {name: value for name, value in os.environ.items() if "PATRONI" not in name}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdout=log, stderr=log, cwd=self.folder, env=env
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def send(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(with_signal)


def working_in(folder: Path) -> set[int]:
    """Return the ids of the processes whose working directory is a folder.

    PostgreSQL's processes have their data folder as working directory, even without their parent.
    """
    found = set()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found.add(int(process.name))
    return found


def send_to(pids: set[int], with_signal: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, with_signal)


def kill_all_in(folder: Path) -> None:
    """Kill all PostgreSQL processes, as a power failure would, and remove their shared memory."""

    def is_over() -> bool:
        pids = working_in(folder)
        send_to(pids, signal.SIGKILL)
        return not pids

    memory = list(_shared_memory(folder))
    wait_until(is_over)
    for id_ in memory:
        subprocess.run(["ipcrm", "-m", id_], check=False, capture_output=True)


def _shared_memory(folder: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        lines = (folder / "postmaster.pid").read_text(encoding="ascii").splitlines()
        if len(lines) > 6 and lines[6].split():
            yield lines[6].split()[1]


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
