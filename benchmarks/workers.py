"""What do several workers gain? One worker, and two workers with the process that writes for them.

The services are measured alternately, and each starts on an empty database. CPU time is per
create. From it follows what more cores would give: the process that writes is the serial part
(Amdahl's law).
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

ROUNDS = 5
SECONDS = 5
CONNECTIONS = (64, 256)
WORKERS = (1, 2)
CORES = (2, 4, 8, 16)


@dataclass(frozen=True)
class Measured:
    """A load, and the CPU time per create, in microseconds: of the workers, and of the writer."""

    load: Load
    workers_us: float
    writer_us: float


def measure(workers: int, connections: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        command = [*plantstore(database, port), "--workers", str(workers)]
        with running(command, port, token) as server:
            pids = pids_of(server, workers)
            wrk(server, connections, 1, first_id=10**12)
            before = [server.cpu_seconds(pid) for pid in pids]
            load = wrk(server, connections, SECONDS)
            after = [server.cpu_seconds(pid) for pid in pids]
    us = [
        1e6 * (late - early) / (load.requests - load.failed)
        for early, late in zip(before, after, strict=True)
    ]
    writer_us, *workers_us = us if workers > 1 else [0.0, *us]
    measured = Measured(load, sum(workers_us), writer_us)
    print(f"{workers} workers, {connections} connections: {measured}", file=sys.stderr)
    return measured


def pids_of(server: Server, workers: int) -> list[int]:
    """Return the processes that serve; of several, the first one writes."""
    if workers == 1:
        return [server.process.pid]
    deadline = time.monotonic() + 30
    # The oldest child is the resource tracker of `multiprocessing`.
    while len(server.children()) < workers + 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    return server.children()[1:]


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

    writer_us = [each.writer_us for each in measured[2, 256]]
    bars = table(
        ["two workers", "measured", "bar"],
        [
            ["creates/s ÷ one worker, 64 connections", ratio(64, "rate"), "≥ 1.0"],
            ["creates/s ÷ one worker, 256 connections", ratio(256, "rate"), "≥ 1.5"],
            ["p99 ÷ one worker, 64 connections", ratio(64, "p99_ms"), "≤ 1.5"],
            ["CPU of the writer per create, 256 connections", f"{spread(writer_us, 1)} µs", "≤ 7"],
        ],
    )
    rows = [
        [
            str(workers),
            str(connections),
            f"{median([each.load.rate for each in seen]):,.0f}",
            f"{median([each.load.p50_ms for each in seen]):.2f}",
            f"{median([each.load.p99_ms for each in seen]):.2f}",
            f"{median([each.workers_us for each in seen]):.1f}",
            f"{median([each.writer_us for each in seen]):.1f}",
            str(sum(each.load.failed for each in seen)),
        ]
        for (workers, connections), seen in measured.items()
    ]
    absolute = table(
        [
            "workers",
            "connections",
            "creates/s",
            "p50 ms",
            "p99 ms",
            "workers µs",
            "writer µs",
            "failed",
        ],
        rows,
    )
    write_result("workers", f"# Workers\n\n{bars}\n\n{absolute}\n\n{projected(measured)}")


def projected(measured: dict[tuple[int, int], list[Measured]]) -> str:
    """Return what more cores would give, from the CPU times at 256 connections."""
    one = median([each.workers_us for each in measured[1, 256]])
    worker = median([each.workers_us for each in measured[2, 256]])
    writer = median([each.writer_us for each in measured[2, 256]])
    rows = []
    for cores in CORES:
        # All cores but one parse; no more creates are committed than the writer can.
        rate = 1e6 / max(worker / (cores - 1), writer)
        rows.append([str(cores), f"{rate:,.0f}", f"{rate * one / 1e6:.1f}"])
    shown = table(["cores", "creates/s", "÷ one worker"], rows)
    return (
        "Projected from the CPU time per create at 256 connections, if one core writes, the others"
        " have a worker each, the disk does not limit, and a core is as fast as here:\n\n" + shown
    )


if __name__ == "__main__":
    main()
