"""Runs servers and measures them with wrk, on loopback only. Every run has a time limit."""

import contextlib
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import apsw

import since
from plantstore.storage import open_store

HERE = Path(__file__).parent
RESULTS = HERE / "results"
TICKS = os.sysconf("SC_CLK_TCK")

# The cache for filling a database: random ids would otherwise write each page many times.
CACHE_KIB = 2 * 1024 * 1024


@dataclass(frozen=True)
class Load:
    """The measurements of wrk."""

    requests: int
    failed: int
    seconds: float
    p50_ms: float
    p99_ms: float
    max_ms: float

    @property
    def rate(self) -> float:
        """Successful requests per second."""
        return (self.requests - self.failed) / self.seconds


@dataclass(frozen=True)
class Server:
    """A running server, and a token that it accepts."""

    process: subprocess.Popen[bytes]
    port: int
    token: str

    def resident_mib(self) -> float:
        """Return the resident memory of the process, in MiB."""
        return _mib(self._proc("status"), "VmRSS")

    def peak_mib(self) -> float:
        """Return the highest resident memory that the process had so far, in MiB."""
        return _mib(self._proc("status"), "VmHWM")

    def cpu_seconds(self, pid: int | None = None) -> float:
        """Return the CPU time that the process, or a child of it, has used so far."""
        fields = self._proc("stat", pid).split()
        return (int(fields[13]) + int(fields[14])) / TICKS

    def cpu_seconds_of_threads(self) -> dict[int, float]:
        """Return the CPU time that each thread of the process has used so far, by its id.

        The main thread has the id of the process. It runs the event loop.
        """
        folder = Path(f"/proc/{self.process.pid}/task")
        return {
            int(thread.name): int((thread / "schedstat").read_text().split()[0]) / 1e9
            for thread in folder.iterdir()
        }

    def names_of_threads(self) -> dict[int, str]:
        """Return the name that the kernel has for each thread of the process, by its id."""
        folder = Path(f"/proc/{self.process.pid}/task")
        return {
            int(thread.name): (thread / "comm").read_text().strip() for thread in folder.iterdir()
        }

    def children(self) -> list[int]:
        """Return the ids of the processes that it has started, the oldest first."""
        return [int(pid) for pid in self._proc(f"task/{self.process.pid}/children").split()]

    def _proc(self, name: str, pid: int | None = None) -> str:
        return Path(f"/proc/{pid or self.process.pid}/{name}").read_text(encoding="ascii")


def plantstore(database: Path | str, port: int) -> list[str]:
    """Return the command that starts this service, on a file or on the database of a URL."""
    url = _url(database)
    return [sys.executable, "-m", "plantstore", "serve", "--port", str(port), "--database", url]


def script(name: str, database: Path | str, port: int) -> list[str]:
    """Return the command that starts a server of this folder."""
    return [sys.executable, str(HERE / name), str(database), str(port)]


def make_token(database: Path | str, name: str = "benchmark", *options: str) -> str:
    """Create a token in a database of this service; create the database if it does not exist."""
    url = _url(database)
    command = [sys.executable, "-m", "plantstore", "token", "create", name]
    command += ["--database", url, *options]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _url(database: Path | str) -> str:
    return f"sqlite:///{database}" if isinstance(database, Path) else database


def fill(database: Path, plants: int, id_: str = "n") -> None:
    """Create a database of this service with this many plants.

    Args:
        database: its file.
        plants: their number.
        id_: the SQL for the id of the plant with the number n, from 1 on.

    """
    with contextlib.closing(open_store(f"sqlite:///{database}")):
        pass
    with contextlib.closing(apsw.Connection(str(database))) as connection:
        connection.pragma("cache_size", -CACHE_KIB)
        with connection:
            connection.execute(
                "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM numbers LIMIT ?)"
                f" INSERT OR IGNORE INTO plants (id, name, tag) SELECT {id_},"
                " 'Abies balsamea (L.) Mill. ' || n, 'Genus ' || (n % 500) FROM numbers",
                (plants,),
            )
            connection.execute("UPDATE totals SET plants = (SELECT count(*) FROM plants)")
            connection.execute("INSERT INTO plants_to_index SELECT min(id) FROM plants")
    open_store(f"sqlite:///{database}").close()  # it indexes the plants


def peak_mib(*arguments: str) -> float:
    """Run a `plantstore` command to its end, and return its highest resident memory, in MiB.

    The program reads its own value from the kernel. The value of `wait4` would include the memory
    of its parent.
    """
    program = (
        "import sys; from plantstore.cli import main; assert main() == 0; "
        "print(open('/proc/self/status').read())"
    )
    command = [sys.executable, "-c", program, *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return _mib(said, "VmHWM")


def _mib(status: str, name: str) -> float:
    [kib] = [line.split()[1] for line in status.splitlines() if line.startswith(name)]
    return int(kib) / 1024


@contextlib.contextmanager
def running(command: list[str], port: int, token: str) -> Iterator[Server]:
    """Run a server until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, process)
        yield Server(process, port, token)
    finally:
        process.terminate()
        process.wait(30)


def wrk(server: Server, connections: int, seconds: int, **what: str | int) -> Load:
    """Load a server as `loading` does, and wait for the end of the load."""
    with loading(server, connections, seconds, **what) as load:
        return load()


@contextlib.contextmanager
def loading(
    server: Server, connections: int, seconds: int, **what: str | int
) -> Iterator[Callable[[], Load]]:
    """Load a server while the block runs; yield a function that waits for the end of the load.

    Args:
        server: the server to load.
        connections: the number of open connections.
        seconds: the duration of the load.
        what: the requests to send: the variables of requests.lua, in lower case.

    """
    executable = shutil.which("wrk")
    if executable is None:
        sys.exit("The benchmarks need wrk: apt-get install wrk")
    command = [executable, "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += ["-s", str(HERE / "requests.lua"), f"http://127.0.0.1:{server.port}"]
    env = {"SEND": "create", "FIRST_ID": "0", "IDS": "sequential", "PLANTS": "0"}
    env |= {"TARGET": "/plants", "BODY": "%s", "ROWS": "1"}
    env |= {"NAMES": "", "TARGETS": "", "PREFER": ""}
    env |= {name.upper(): str(value) for name, value in what.items()} | {"TOKEN": server.token}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | env
    ) as process:

        def load() -> Load:
            said, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"wrk failed: {said}")
            return Load(**json.loads(said.splitlines()[-1]))

        yield load


def free_port() -> int:
    """Return a free port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


_BAR = re.compile(r"([≤≥]) ([\d.]+)")


def table(header: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table. A bar follows its figure, and says whether it is missed."""
    lines = [header, ["---"] * len(header), *rows]
    if "bar" in header:
        at = header.index("bar")
        lines = [[*line[:at], judge(line[at - 1], line[at]), *line[at + 1 :]] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def judge(figure: str, bar: str) -> str:
    """Return a bar as text, with `missed` if the figure does not reach it."""
    found = _BAR.fullmatch(bar)
    if found is None:
        return bar
    measured, limit = float(figure.partition(" ")[0].replace(",", "")), float(found[2])
    is_reached = measured <= limit if found[1] == "≤" else measured >= limit
    return bar if is_reached else f"{bar}: missed"


def write_result(name: str, text: str) -> None:
    """Print a result and write it to its file, with a description of the machine."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    machine = f"{os.cpu_count()} cores ({cpu}) and Python {platform.python_version()}"
    measured = f"Measured on {time.strftime('%Y-%m-%d')} with {machine}."
    if name in since.TEXTS:
        text += f"\n\nSince {since.VERSION}: {since.TEXTS[name]}"
    body = f"{text}\n\n{measured} The load generator ran on the same machine.\n"
    print(body)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(body, encoding="utf-8")


def spread(values: list[float], digits: int = 2) -> str:
    """Return a median as text, with the minimum and the maximum."""
    middle, least, most = (
        f"{value:.{digits}f}" for value in (median(values), min(values), max(values))
    )
    return f"{middle} ({least} to {most})"


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start: {process.args!r}")
