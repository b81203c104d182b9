"""How fast are durable creates, compared with the no-op handler and FastAPI with SQLAlchemy?

The servers are measured alternately, and each starts on an empty database. Each ratio is the
median of the ratios of the rounds: the speed of the machine varies, and an effect on both
servers of a round cancels out.
"""

import tempfile
from pathlib import Path
from statistics import median

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
SERVERS = ("plantstore", "no-op", "no-op, batched", "FastAPI + SQLAlchemy")


def measure(server: str, connections: int) -> Load:
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        match server:
            case "plantstore":
                command = plantstore(database, port)
            case "no-op":
                command = script("noop.py", database, port)
            case "no-op, batched":
                command = [*script("noop.py", database, port), "together"]
            case _:
                peer = Path(folder) / "peer.db"
                command = [*script("fastapi_sqlalchemy.py", peer, port), token]
        with running(command, port, token) as running_server:
            wrk(running_server, connections, 1, first_id=10**12)
            return wrk(running_server, connections, SECONDS)


def main() -> None:
    loads: dict[tuple[str, int], list[Load]] = {}
    for _ in range(ROUNDS):
        for connections in CONNECTIONS:
            for server in SERVERS:
                loads.setdefault((server, connections), []).append(measure(server, connections))

    rows = []
    for connections in CONNECTIONS:
        for server in SERVERS:
            seen = loads[server, connections]
            rows.append(
                [
                    server,
                    str(connections),
                    f"{median([load.rate for load in seen]):,.0f}",
                    f"{median([load.p50_ms for load in seen]):.2f}",
                    f"{median([load.p99_ms for load in seen]):.2f}",
                    str(sum(load.failed for load in seen)),
                ]
            )
    absolute = table(
        ["server", "connections", "creates/s", "p50 ms", "p99 ms", "failed"],
        rows,
    )

    def ratio(of: str, to: str, figure: str) -> str:
        pairs = zip(loads[of, 64], loads[to, 64], strict=True)
        return spread([getattr(a, figure) / getattr(b, figure) for a, b in pairs])

    ratios = table(
        ["64 connections", "measured", "bar"],
        [
            ["creates/s ÷ requests/s of the no-op", ratio("plantstore", "no-op", "rate"), "≥ 1.1"],
            [
                "creates/s ÷ requests/s of the no-op, batched",
                ratio("plantstore", "no-op, batched", "rate"),
                "≥ 0.8",
            ],
            [
                "creates/s ÷ FastAPI + SQLAlchemy",
                ratio("plantstore", "FastAPI + SQLAlchemy", "rate"),
                "≥ 30",
            ],
            ["p99 ÷ p99 of the no-op", ratio("plantstore", "no-op", "p99_ms"), "≤ 3"],
        ],
    )
    write_result("creates", f"# Creates\n\n{ratios}\n\n{absolute}")


if __name__ == "__main__":
    main()
