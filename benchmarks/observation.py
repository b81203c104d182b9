"""How much do the metrics cost?

The service is measured alternately with metrics, and without metrics and observers, each time on
an empty database. Each ratio is the median of the ratios of the rounds. With metrics, they are
also requested every 2.5 seconds, far more often than usual. The CPU time of the service is steadier
than its rate, because the load generator shares the cores.
"""

import tempfile
import threading
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from harness import (
    Load,
    Server,
    free_port,
    make_token,
    plantstore,
    running,
    script,
    spread,
    table,
    write_result,
    wrk,
)

ROUNDS = 11
SECONDS = 5
SERVERS = ("with metrics", "without metrics")


def scrape(server: Server, over: threading.Event) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{server.port}/metrics",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    while not over.wait(SECONDS / 2):
        urllib.request.urlopen(request).read()


@dataclass(frozen=True)
class Measured:
    """A load, and the CPU time of the service per create, in microseconds."""

    load: Load
    cpu_us: float


def measure(name: str) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(
            database, "benchmark", "--scope", "plants:create", "--scope", "metrics:read"
        )
        is_counted = name == "with metrics"
        command = (
            plantstore(database, port) if is_counted else script("unobserved.py", database, port)
        )
        with running(command, port, token) as server:
            wrk(server, 64, 1, first_id=10**12)
            over = threading.Event()
            scraper = threading.Thread(target=scrape, args=(server, over))
            if is_counted:
                scraper.start()
            before = server.cpu_seconds()
            load = wrk(server, 64, SECONDS)
            cpu_seconds = server.cpu_seconds() - before
            over.set()
            if is_counted:
                scraper.join()
            return Measured(load, 1e6 * cpu_seconds / (load.requests - load.failed))


def main() -> None:
    measured: dict[str, list[Measured]] = {}
    for number in range(ROUNDS):
        for name in SERVERS if number % 2 else reversed(SERVERS):
            measured.setdefault(name, []).append(measure(name))
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
    pairs = [*zip(measured["with metrics"], measured["without metrics"], strict=True)]
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
