"""How much do the metrics cost?

Two services run at the same time, on databases that were empty at the beginning: one with metrics,
and one without metrics and observers. They are loaded alternately, for a second each, so that
both meet the same moods of the machine. Each ratio is the median of the ratios of the rounds. The
CPU time of the service is steadier than its rate, because the load generator shares the cores.
During each load the metrics are also requested, far more often than usual.
"""

import contextlib
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness import (
    Load,
    Server,
    free_port,
    loading,
    make_token,
    plantstore,
    running,
    script,
    spread,
    table,
    write_result,
)

ROUNDS = 60
SECONDS = 1
COUNTED = "with metrics"
UNCOUNTED = "without metrics"

# Each load creates plants under ids of its own.
IDS_A_LOAD = 10**9


@dataclass(frozen=True)
class Measured:
    """A load, and the CPU time of the service per create, in microseconds."""

    load: Load
    cpu_us: float


@contextlib.contextmanager
def serving(name: str) -> Iterator[Server]:
    """Run a service on an empty database until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        scopes = ("--scope", "plants:create", "--scope", "metrics:read")
        token = make_token(database, "benchmark", *scopes)
        command = (
            plantstore(database, port)
            if name == COUNTED
            else script("unobserved.py", database, port)
        )
        with running(command, port, token) as server:
            yield server


def measure(name: str, server: Server, number: int) -> Measured:
    """Load a server; `number` counts the loads."""
    before = server.cpu_seconds()
    with loading(server, 64, SECONDS, first_id=number * IDS_A_LOAD) as load:
        if name == COUNTED:
            read_metrics(server)
        seen = load()
    cpu_seconds = server.cpu_seconds() - before
    return Measured(seen, 1e6 * cpu_seconds / (seen.requests - seen.failed))


def read_metrics(server: Server) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/metrics",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    urllib.request.urlopen(request).read()


def main() -> None:
    measured: dict[str, list[Measured]] = {COUNTED: [], UNCOUNTED: []}
    with contextlib.ExitStack() as opened:
        servers = {name: opened.enter_context(serving(name)) for name in measured}
        for name, server in servers.items():
            measure(name, server, 0)  # to warm up
        for number in range(1, ROUNDS + 1):
            for name in measured if number % 2 else reversed(measured):
                measured[name].append(measure(name, servers[name], number))
    rows = [
        [
            name,
            f"{median([each.load.rate for each in seen]):,.0f}",
            f"{median([each.cpu_us for each in seen]):.1f}",
            f"{median([each.load.p50_ms for each in seen]):.2f}",
            f"{median([each.load.p99_ms for each in seen]):.2f}",
            str(sum(each.load.failed for each in seen)),
        ]
        for name, seen in measured.items()
    ]
    pairs = [*zip(measured[COUNTED], measured[UNCOUNTED], strict=True)]
    rates = [counted.load.rate / without.load.rate for counted, without in pairs]
    times = [counted.cpu_us / without.cpu_us for counted, without in pairs]
    write_result(
        "observation",
        "# Cost of metrics\n\n"
        + table(["64 connections", "creates/s", "CPU µs", "p50 ms", "p99 ms", "failed"], rows)
        + "\n\n"
        + table(
            ["with metrics ÷ without metrics", "measured", "bar"],
            [
                ["creates/s", spread(rates, 3), "≥ 0.97"],
                ["CPU time per create", spread(times, 3), "-"],
            ],
        ),
    )


if __name__ == "__main__":
    main()
