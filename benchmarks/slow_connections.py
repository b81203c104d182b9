"""How fast is a normal client while the service has a thousand slow connections?

The normal client is wrk, with 64 connections that create plants. It is measured alternately,
alone and beside each kind of slow client, on the same server. The slow clients also use a part
of the two cores. So the lower rate includes the cost in the server and their own CPU time.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from harness import (
    HERE,
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
from plantstore.plants import NewPlant
from plantstore.storage import open_store

ROUNDS = 3
SECONDS = 8
SLOW = 1000
# Longer than the deadline of the service: it closes the slow connections, and they reconnect.
WARM_SECONDS = 12
ALONE = "none"
KINDS = ("silent", "head", "body", "reading")


def measure(server: Server, kind: str, first_id: int) -> tuple[Load, float, dict[str, float]]:
    if kind == ALONE:
        return wrk(server, 64, SECONDS, first_id=first_id), server.resident_mib(), {}
    command = [sys.executable, str(HERE / "slow_clients.py"), kind, str(server.port), server.token]
    command += [str(SLOW), str(WARM_SECONDS + SECONDS + 1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as clients:
        time.sleep(WARM_SECONDS)
        load = wrk(server, 64, SECONDS, first_id=first_id)
        resident = server.resident_mib()
        said, _ = clients.communicate()
    return load, resident, json.loads(said)


def main() -> None:
    seen: dict[str, list[tuple[Load, float, dict[str, float]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        with contextlib.closing(open_store(f"sqlite:///{database}")) as store:
            store.apply_changes([NewPlant(-1 - id_, "x" * 1000) for id_ in range(1000)])
        with running(plantstore(database, port), port, token) as server:
            wrk(server, 64, 2, first_id=10**12)
            for number in range(ROUNDS):
                for place, kind in enumerate((ALONE, *KINDS)):
                    first_id = (number * 10 + place + 1) * 10**7
                    seen.setdefault(kind, []).append(measure(server, kind, first_id))

    rows = []
    for kind, rounds in seen.items():
        ratios = [
            load.rate / alone.rate
            for (load, _, _), (alone, _, _) in zip(rounds, seen[ALONE], strict=True)
        ]
        rows.append(
            [
                kind,
                f"{median([load.rate for load, _, _ in rounds]):,.0f}",
                f"{median([load.p99_ms for load, _, _ in rounds]):.2f}",
                str(sum(load.failed for load, _, _ in rounds)),
                f"{max(resident for _, resident, _ in rounds):.0f}",
                "-" if kind == ALONE else f"{median([said['open'] for *_, said in rounds]):.0f}",
                "-" if kind == ALONE else f"{sum(said['lost'] for *_, said in rounds):.0f}",
                "-" if kind == ALONE else spread(ratios),
                "-" if kind == ALONE else "≥ 0.9",
            ]
        )
    header = [
        "slow clients",
        "creates/s",
        "p99 ms",
        "failed",
        "resident MiB",
        "slow connections open",
    ]
    write_result(
        "slow_connections",
        f"# A normal client beside {SLOW:,} slow connections\n\n"
        + table([*header, "closed by the server", "÷ alone", "bar"], rows),
    )


if __name__ == "__main__":
    main()
