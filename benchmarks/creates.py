"""How fast are durable creates, and how much CPU time do they take?

    python benchmarks/creates.py [--against COMMIT]

They are compared with a handler of Falcon that does nothing, on uvicorn as it comes; with this
service without its store; and with FastAPI and SQLAlchemy. The servers are measured alternately,
and each starts on an empty database. Each ratio is the median of the ratios of the rounds: the
speed of the machine varies, and an effect on both servers of a round cancels out.

With `--against`, the service is compared with an older commit instead (`before.py`).
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from before import compare
from harness import (
    Load,
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

ROUNDS = 5
SECONDS = 5
CONNECTIONS = (1, 64, 256)
SERVERS = ("plantstore", "no-op", "plantstore without a store", "FastAPI + SQLAlchemy")


@dataclass(frozen=True)
class Measured:
    """A load, and the CPU time of the server for each request, in microseconds."""

    load: Load
    loop_us: float
    all_us: float

    @property
    def rate(self) -> float:
        """Successful requests per second."""
        return self.load.rate

    @property
    def p99_ms(self) -> float:
        """The duration that 99 of 100 requests did not exceed."""
        return self.load.p99_ms


def measure(server: str, connections: int) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        match server:
            case "plantstore":
                command = plantstore(database, port)
            case "no-op":
                command = script("falcon_noop.py", database, port)
            case "plantstore without a store":
                command = script("noop.py", database, port)
            case _:
                peer = Path(folder) / "peer.db"
                command = [*script("fastapi_sqlalchemy.py", peer, port), token]
        with running(command, port, token) as running_server:
            wrk(running_server, connections, 1, first_id=10**12)
            before = running_server.cpu_seconds_of_threads()
            load = wrk(running_server, connections, SECONDS)
            after = running_server.cpu_seconds_of_threads()
    used = {thread: after[thread] - before.get(thread, 0.0) for thread in after}
    each = 1e6 / load.requests
    return Measured(load, used[running_server.process.pid] * each, sum(used.values()) * each)


def main() -> None:
    measured: dict[tuple[str, int], list[Measured]] = {}
    for _ in range(ROUNDS):
        for connections in CONNECTIONS:
            for server in SERVERS:
                measured.setdefault((server, connections), []).append(measure(server, connections))

    rows = []
    for connections in CONNECTIONS:
        for server in SERVERS:
            seen = measured[server, connections]
            rows.append(
                [
                    server,
                    str(connections),
                    f"{median([each.rate for each in seen]):,.0f}",
                    f"{median([each.load.p50_ms for each in seen]):.2f}",
                    f"{median([each.p99_ms for each in seen]):.2f}",
                    f"{median([each.loop_us for each in seen]):.1f}",
                    f"{median([each.all_us - each.loop_us for each in seen]):.1f}",
                    str(sum(each.load.failed for each in seen)),
                ]
            )
    absolute = table(
        [
            *("server", "connections", "creates/s", "p50 ms", "p99 ms"),
            *("CPU µs of the event loop", "of other threads", "failed"),
        ],
        rows,
    )

    def ratio(figure: str, to: str = "no-op") -> str:
        pairs = zip(measured["plantstore", 64], measured[to, 64], strict=True)
        return spread([getattr(a, figure) / getattr(b, figure) for a, b in pairs])

    ratios = table(
        ["a create, 64 connections", "measured", "bar"],
        [
            ["CPU of the event loop ÷ the no-op's", ratio("loop_us"), "≤ 0.9"],
            ["CPU of all threads ÷ the no-op's", ratio("all_us"), "≤ 1.35"],
            ["creates/s ÷ requests/s of the no-op", ratio("rate"), "≥ 0.9"],
            ["p99 ÷ p99 of the no-op", ratio("p99_ms"), "≤ 1.2"],
            ["creates/s ÷ FastAPI + SQLAlchemy", ratio("rate", "FastAPI + SQLAlchemy"), "≥ 30"],
        ],
    )
    write_result("creates", f"# Creates\n\n{ratios}\n\n{absolute}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", metavar="COMMIT", help="compare with an older commit")
    if (commit := parser.parse_args().against) is None:
        main()
    else:
        compare(commit)
