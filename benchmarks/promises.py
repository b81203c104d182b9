"""What does a 2xx mean: does the plant survive a kill, and was it synced before the response?

A killed server loses only data that it had not yet passed to the kernel. A power failure also
loses data that the kernel had not yet written to the disk. A kill does not show this, so the
system calls are examined too.
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness import Server
from peer import Peer

KILL_AFTER_SECONDS = (1.0, 1.4, 1.9)
CONNECTIONS = 8
CREATES = 50
# A sync after the response must happen in this pause, and not during the next create.
PAUSE_SECONDS = 0.02
SYNCS = "fsync,fdatasync,msync,sync_file_range"


@dataclass(frozen=True)
class Kills:
    """How many plants were acknowledged before the kills, and how many of them were lost."""

    acknowledged: int
    lost: int


@dataclass(frozen=True)
class Syncs:
    """How many syncs happened between a request and its response."""

    least: int
    median: float


class Client:
    """One connection that creates plants."""

    def __init__(self, peer: Peer, server: Server) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        self._peer = peer
        self._token = server.token

    def create(self, plant: int, token: str | None = None, tag: str = "Abies") -> int:
        """Create a plant, read the response and return its status."""
        record = {"id": plant, "name": f"Abies balsamea (L.) Mill. {plant}", "tag": tag}
        headers = {
            "Authorization": f"Bearer {self._token if token is None else token}",
            "Content-Type": "application/json",
        }
        body = self._peer.body % json.dumps(record)
        self._connection.request("POST", self._peer.target, body, headers)
        with self._connection.getresponse() as answer:
            answer.read()
            return answer.status


def refusals(peer: Peer) -> tuple[int, int]:
    """Return the statuses for another plant with a stored id, and for a wrong token."""
    with peer.serving() as (server, _):
        _must_succeed(Client(peer, server).create(1))
        # Each uses its own connection: some servers close the connection after an error.
        return Client(peer, server).create(1, tag="Picea"), Client(peer, server).create(2, "wrong")


def kills(peer: Peer) -> Kills:
    """Kill the server during creates, and look for the plants that it acknowledged."""
    seen = [_kill(peer, seconds) for seconds in KILL_AFTER_SECONDS]
    return Kills(sum(kill.acknowledged for kill in seen), sum(kill.lost for kill in seen))


def _kill(peer: Peer, after_seconds: float) -> Kills:
    with peer.serving() as (server, folder):
        acknowledged: list[int] = []

        def load(first: int) -> None:
            client, plant = Client(peer, server), first
            with contextlib.suppress(OSError, http.client.HTTPException):
                while True:
                    _must_succeed(client.create(plant))
                    acknowledged.append(plant)
                    plant += CONNECTIONS

        threads = [
            threading.Thread(target=load, args=(1 + number,)) for number in range(CONNECTIONS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(after_seconds)
        _kill_all(server)
        for thread in threads:
            thread.join()
        server.process.wait(30)
        lost = set(acknowledged) - peer.stored(folder)
    return Kills(len(acknowledged), len(lost))


def syncs(peer: Peer) -> Syncs | None:
    """Count the syncs between request and response, one create at a time; None without strace."""
    if shutil.which("strace") is None:
        return None
    with peer.serving() as (server, folder):
        client = Client(peer, server)
        _must_succeed(client.create(CREATES + 1))
        spans = []
        with _tracing(server, folder / "trace"):
            for plant in range(1, CREATES + 1):
                time.sleep(PAUSE_SECONDS)
                sent = time.time()
                _must_succeed(client.create(plant))
                spans.append((sent, time.time()))
        done = list(_done((folder / "trace").read_text(encoding="utf-8"), folder))
    counts = [
        sum(sent <= began and ended <= answered for began, ended in done)
        for sent, answered in spans
    ]
    return Syncs(min(counts), median(counts))


@contextlib.contextmanager
def _tracing(server: Server, into: Path) -> Iterator[None]:
    command = ["strace", "-f", "-ttt", "-T", "-y", "-e", f"trace={SYNCS}", "-o", str(into)]
    pids = tree(server.process.pid)
    command += [option for pid in pids for option in ("-p", str(pid))]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        for _ in pids:
            said = strace.stderr.readline()
            assert "attached" in said, said
        try:
            yield
        finally:
            _kill_all(server)  # strace ends when all traced processes have ended


def _done(trace: str, folder: Path) -> Iterator[tuple[float, float]]:
    """Yield when each sync of a file in the folder began and ended."""
    whole = re.compile(r"(\d+) +([\d.]+) (?:\w+\((.*)\)|<\.\.\. \w+ resumed>.*) += 0 <([\d.]+)>")
    begun = re.compile(r"(\d+) +[\d.]+ \w+\((.*) <unfinished \.\.\.>")
    waiting: dict[str, str] = {}
    for line in trace.splitlines():
        if found := begun.fullmatch(line):
            waiting[found[1]] = found[2]
        elif found := whole.fullmatch(line):
            thread, at, took = found[1], float(found[2]), float(found[4])
            if f"<{folder}/" in (waiting.pop(thread) if found[3] is None else found[3]):
                yield (at, at + took) if found[3] is not None else (at - took, at)


def _kill_all(server: Server) -> None:
    for pid in tree(server.process.pid):
        os.kill(pid, signal.SIGKILL)


def tree(pid: int) -> list[int]:
    """Return the ids of a process and of all its descendants; the process is first."""
    pids = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended since
            for child in (task / "children").read_text(encoding="ascii").split():
                pids += tree(int(child))
    return pids


def resident_mib(server: Server) -> float:
    """Return the memory of the server's processes in MiB; shared memory counts once."""
    kib = 0
    for pid in tree(server.process.pid):
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        kib += next(int(line.split()[1]) for line in rollup.splitlines() if line[:4] == "Pss:")
    return kib / 1024


def _must_succeed(status: int) -> None:
    if status // 100 != 2:  # noqa: PLR2004
        raise RuntimeError(f"a create was answered with {status}")
