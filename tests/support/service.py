"""A real server process on a free port, and an HTTP client."""

import contextlib
import http.client
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from prometheus_client.parser import text_string_to_metric_families

from plantstore.changes import Change
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.store import Store
from plantstore.tokens import SCOPES, TokenRecord, digest, mint
from support.following import Copy, plants_of
from support.forks import ForkedProcess
from support.postgres import execute, wait_until

PLANTSTORE = [sys.executable, "-m", "plantstore"]


class Answer(NamedTuple):
    """A response of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """An HTTP client with one persistent connection."""

    def __init__(self, port: int, token: str | None) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.headers = {"Content-Type": "application/json"}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        self.connection.request(method, path, body, self.headers | (headers or {}))
        answer = self.connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read())

    def post(self, plant: NewPlant) -> Answer:
        return self.send_record("POST", "/plants", plant.name, plant.tag, id=plant.id)

    def send_record(
        self, method: str, path: str, name: str, tag: str | None, **members: Any
    ) -> Answer:
        record = members | {"name": name} | ({} if tag is None else {"tag": tag})
        return self.send(method, path, json.dumps(record))

    def total(self, metric: str, **labels: str) -> float:
        """Return the sum of the samples of a metric with these labels."""
        answer = self.send("GET", "/metrics")
        assert answer.status == 200
        return sum(
            sample.value
            for family in text_string_to_metric_families(answer.body.decode())
            for sample in family.samples
            if sample.name == metric and labels.items() <= sample.labels.items()
        )

    def close(self) -> None:
        self.connection.close()


class Service:
    """`plantstore serve` in a folder, until the block ends.

    `command` replaces the command that runs `plantstore`.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        database: str | None = None,
        command: Sequence[str] = PLANTSTORE,
    ) -> None:
        self.folder = folder
        self.command = command
        self.env = os.environ | ({} if database is None else {"PLANTSTORE_DATABASE": database})
        # The default database of the commands.
        self.database = self.env.get("PLANTSTORE_DATABASE") or f"sqlite:///{folder}/plants.db"
        self.options = options
        self.said = ""
        # While it is not set, the log is not read.
        self.reads_log = threading.Event()
        self.reads_log.set()

    def __enter__(self) -> Self:
        self.process = self._start(["serve", "--port", "0", *self.options])
        assert self.process.stderr is not None
        ports: queue.Queue[int] = queue.Queue()
        self.log: list[str] = []

        def read_log(lines: Iterator[str]) -> None:
            for line in lines:
                self.log.append(line)
                if serving := re.match(r"Serving .* on https?://.*:(\d+)$", line):
                    ports.put(int(serving[1]))
                self.reads_log.wait()
            ports.put(0)

        self.reader = threading.Thread(target=read_log, args=(iter(self.process.stderr),))
        self.reader.start()
        self.port = ports.get(timeout=60)
        assert self.port, f"the server did not start: {self.log}"
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop(signal.SIGKILL if kind else signal.SIGTERM)

    def _start(self, arguments: list[str]) -> subprocess.Popen[str] | ForkedProcess:
        """Start a process. Workers are started anew by their parent, so it is not forked."""
        if self.command == PLANTSTORE and "--workers" not in arguments:
            return ForkedProcess(arguments, self.folder, self.env)
        return subprocess.Popen(
            [*self.command, *arguments],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal, wait until the process ends, and return its exit status."""
        assert self.process.stdout is not None
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(with_signal)
        status = self.process.wait(60)
        self.reads_log.set()
        if not self.process.stdout.closed:
            self.said = self.process.stdout.read()
            self.process.stdout.close()
            self.reader.join()
            assert self.process.stderr is not None
            self.process.stderr.close()
        return status

    def children(self) -> list[int]:
        """Return the process ids of its child processes, which are its workers."""
        lists = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for pids in lists for pid in pids.read_text(encoding="ascii").split()]

    def workers(self) -> set[int]:
        """Return the process ids of the workers that serve."""
        accepting = {line["pid"] for line in self.logged("accepting plants")}
        return accepting.intersection(self.children())

    def wait_for_log(self, text: str) -> None:
        """Wait until a line of the log contains a text. The log is written and read by threads."""
        wait_until(lambda: self.has_logged(text))

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the lines of the log with an event."""
        lines = [json.loads(line) for line in self.log if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def has_logged(self, text: str) -> bool:
        """Return whether a line of the log contains a text."""
        return any(text in line for line in self.log)

    def resident_mib(self) -> float:
        """Return the resident memory of the process."""
        return self._mib("VmRSS")

    def peak_mib(self) -> float:
        """Return the peak of the resident memory of the process."""
        return self._mib("VmHWM")

    def _mib(self, kind: str) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        [kib] = re.findall(rf"{kind}:\s*(\d+) kB", status)
        return int(kib) / 1024

    def open_sockets(self) -> int:
        """Return the number of open sockets of the process."""
        return sum(file.startswith("socket:") for file in self.open_files())

    def open_files(self) -> list[str]:
        """Return what the open files of the process are."""
        files = []
        for file in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                files.append(str(file.readlink()))
        return files

    def token(self, *scopes: str, name: str = "test", **changes: Any) -> str:
        """Create a token directly in the database, as another process would."""
        secret = mint()
        record = TokenRecord(name, digest(secret), frozenset(scopes or SCOPES), 0, **changes)
        with opened(self.database) as store:
            store.add_token(record)
        return secret

    def change(self, *changes: Change) -> None:
        """Change plants directly in the database, as another process would."""
        with opened(self.database) as store:
            store.apply_changes(changes)

    def client(self, token: str | None) -> Client:
        return Client(self.port, token)


@contextlib.contextmanager
def serving(folder: Path, *options: str, **more: Any) -> Iterator[tuple[Service, Client]]:
    """Run a service until the block ends; yield it with a client that has all scopes."""
    with Service(folder, *options, **more) as service, service.client(service.token()) as client:
        yield service, client


def stored_plants(database: str) -> dict[int, NewPlant]:
    """Return the plants in a database, and assert that its integrity check finds no problem."""
    if database.startswith("postgresql"):
        # Statements of a killed service may still be running.
        others = """
            SELECT FROM pg_stat_activity WHERE application_name = 'plantstore' AND state = 'active'
        """
        wait_until(lambda: not execute(database, others))
    with opened(database) as store:
        assert not store.check().problems
        return plants_of(store)


def plants_of_feed(database: str) -> dict[int, NewPlant]:
    """Return the plants of a copy that has followed the feed from its beginning."""
    with opened(database) as store:
        return Copy().follow(store, 1000).plants


@contextlib.contextmanager
def opened(database: str) -> Iterator[Store]:
    """Open the store of a database, as another process would."""
    with contextlib.closing(open_store(database)) as store:
        yield store
