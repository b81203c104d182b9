"""What do several workers gain on SQLite, where they write one after the other?

The services are measured alternately, and each starts on an empty database. CPU time is per
create, of all workers.
"""

import sys
import tempfile
import time
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
    spread,
    table,
    write_result,
    wrk,
)

ROUNDS = 4
SECONDS = 5

# How long the load lasts before the measurement: the workers start during it.
WARM_UP_SECONDS = 3
CONNECTIONS = (64, 256)
WORKERS = (1, 2, 4)


@dataclass(frozen=True)
class Measured:
    """A load, and the CPU time of the workers per create, in microseconds."""

    load: Load
    cpu_us: float


def measure(workers: int, connections: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        command = [*plantstore(database, port), "--workers", str(workers)]
        with running(command, port, token) as server:
            pids = pids_of(server, workers)
            wrk(server, connections, WARM_UP_SECONDS, first_id=10**12)
            before = sum(map(server.cpu_seconds, pids))
            load = wrk(server, connections, SECONDS)
            seconds = sum(map(server.cpu_seconds, pids)) - before
    measured = Measured(load, 1e6 * seconds / (load.requests - load.failed))
    print(f"{workers} workers, {connections} connections: {measured}", file=sys.stderr)
    return measured


def pids_of(server: Server, workers: int) -> list[int]:
    """Return the processes that serve."""
    if workers == 1:
        return [server.process.pid]
    deadline = time.monotonic() + 30
    while len(server.children()) < workers and time.monotonic() < deadline:
        time.sleep(0.05)
    return server.children()


def main() -> None:
    measured: dict[tuple[int, int], list[Measured]] = {}
    for _ in range(ROUNDS):
        for connections in CONNECTIONS:
            for workers in WORKERS:
                measured.setdefault((workers, connections), []).append(
                    measure(workers, connections)
                )

    def ratio(connections: int, figure: str) -> str:
        pairs = zip(measured[2, connections], measured[1, connections], strict=True)
        return spread([getattr(a.load, figure) / getattr(b.load, figure) for a, b in pairs])

    bars = table(
        ["two workers", "measured", "bar"],
        [
            ["creates/s ÷ one worker, 64 connections", ratio(64, "rate"), "≥ 1.1"],
            ["creates/s ÷ one worker, 256 connections", ratio(256, "rate"), "≥ 1.1"],
            ["p99 ÷ one worker, 64 connections", ratio(64, "p99_ms"), "≤ 1.5"],
        ],
    )
    rows = [
        [
            str(workers),
            str(connections),
            f"{median([each.load.rate for each in seen]):,.0f}",
            f"{median([each.load.p50_ms for each in seen]):.2f}",
            f"{median([each.load.p99_ms for each in seen]):.2f}",
            f"{median([each.cpu_us for each in seen]):.1f}",
            str(sum(each.load.failed for each in seen)),
        ]
        for (workers, connections), seen in measured.items()
    ]
    absolute = table(
        ["workers", "connections", "creates/s", "p50 ms", "p99 ms", "CPU µs", "failed"], rows
    )
    write_result("workers", f"# Workers\n\n{bars}\n\n{absolute}")


if __name__ == "__main__":
    main()
