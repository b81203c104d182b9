"""What do random ids cost, when ten million plants with random ids are stored?

Consecutive ids change a few pages at the end of the B-tree. Each random id changes a different
page, and each page is written to the log and later to the database. SQL fills the database in
random order. The cases are measured alternately, as in creates.py.
"""

import tempfile
from pathlib import Path
from statistics import median

from harness import (
    Load,
    fill,
    free_port,
    make_token,
    plantstore,
    running,
    spread,
    table,
    write_result,
    wrk,
)

PLANTS = 10_000_000
IDS_MAX = 2**52  # as in requests.lua
ROUNDS = 3
SECONDS = 5
CONNECTIONS = 64


def measure(database: Path, token: str, seed: int, ids: str) -> Load:
    port = free_port()
    with running(plantstore(database, port), port, token) as server:
        wrk(server, CONNECTIONS, 1, first_id=IDS_MAX + 2 * seed, ids=ids)
        return wrk(server, CONNECTIONS, SECONDS, first_id=IDS_MAX + 10**9 + seed, ids=ids)


def main() -> None:
    loads: dict[tuple[str, str], list[Load]] = {}
    with tempfile.TemporaryDirectory() as folder:
        full, empty = Path(folder) / "full.db", Path(folder) / "empty.db"
        fill(full, PLANTS, f"random() & {IDS_MAX - 1}")
        token = make_token(full)
        for number in range(ROUNDS):
            for ids in ("sequential", "random"):
                seed = (number + 1) * 10**6
                loads.setdefault(("full", ids), []).append(measure(full, token, seed, ids))
                empty_token = make_token(empty)
                loads.setdefault(("empty", ids), []).append(measure(empty, empty_token, seed, ids))
                for file in Path(folder).glob("empty.db*"):
                    file.unlink()

    def ratio(a: tuple[str, str], b: tuple[str, str]) -> str:
        return spread([x.rate / y.rate for x, y in zip(loads[a], loads[b], strict=True)])

    full_sequential, full_random = ("full", "sequential"), ("full", "random")
    ratios = table(
        ["creates/s, 64 connections", "measured", "bar"],
        [
            ["full ÷ empty, sequential", ratio(full_sequential, ("empty", "sequential")), "-"],
            ["full ÷ empty, random", ratio(full_random, ("empty", "random")), "-"],
            ["random ÷ sequential, full", ratio(full_random, full_sequential), "≥ 0.5"],
        ],
    )
    absolute = table(
        ["database", "ids", "creates/s", "p50 ms", "p99 ms"],
        [
            [
                *key,
                f"{median([load.rate for load in seen]):,.0f}",
                f"{median([load.p50_ms for load in seen]):.2f}",
                f"{median([load.p99_ms for load in seen]):.2f}",
            ]
            for key, seen in loads.items()
        ],
    )
    write_result("random_ids", f"# Random ids\n\n{ratios}\n\n{absolute}")


if __name__ == "__main__":
    main()
