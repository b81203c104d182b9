"""How does the cost of each operation grow from ten thousand to ten million plants?

    python benchmarks/growth.py [--rounds 5] [--seconds 3] [--sizes 10000 1000000 10000000]

Stores of each size are served at the same time. In each round, every operation is measured on each
of them, one after the other. The cost is the CPU time of the service, which is steadier than rates
on a machine that the load generator shares. Each growth is the median of the ratios of the rounds.
"""

import argparse
import contextlib
import http.client
import itertools
import json
import secrets
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from chart import Line, lines
from harness import (
    RESULTS,
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
from loads import WARM_UP_SECONDS, Requests
from plant_names import one_word, plants, write_targets
from searches import fill
from streams import CSV, send

SIZES = [10_000, 1_000_000, 10_000_000]
ROUNDS = 5
SECONDS = 3
CONNECTIONS = 64

# Number of different names and queries, and of plants in each import.
QUERIES = 20_000
IMPORTED = 20_000

# Ids of created and imported plants, above those that are stored.
CREATED_ID, IMPORTED_ID = 10**12, 10**15

IMPORT, UNDO = "import, each plant", "undo, each plant"

# The bar, for the operations that have one.
BAR = 1.3
CREATE, LOOK_UP, PAGE, BY_NAME, SEARCH, TAGS = (
    "create",
    "lookup",
    "page of 100",
    "page of 100 by name",
    "search, usual word",
    "tags",
)
WITH_BAR = (CREATE, LOOK_UP, PAGE, SEARCH)


@dataclass(frozen=True)
class Store:
    """A served store: its number of plants, and the loads of wrk on it."""

    plants: int
    server: Server
    loads: dict[str, Requests]


def short(size: int) -> str:
    """Return a number of plants as 10k or 10M."""
    return f"{size // 10**6}M" if size >= 10**6 else f"{size // 1000}k"


def usual_words() -> list[str]:
    """Return the most frequent genera: each has 40 of 10,000 plants or more."""
    genera = Counter(plant.name.split()[0] for plant in plants(QUERIES))
    return [genus for genus, _ in genera.most_common(20)]


@contextlib.contextmanager
def serving(folder: Path, number: int) -> Iterator[Store]:
    """Fill a store, and serve it until the block ends."""
    database = folder / f"{number}.db"
    fill(database, number)
    names = folder / "names"
    targets = {
        BY_NAME: ("/plants?limit=100&sort=name&from=%s", one_word(QUERIES, 3)),
        SEARCH: ("/plants?limit=20&q=%s", usual_words()),
        TAGS: ("/tags?limit=%s", ["100"]),
    }
    loads: dict[str, Requests] = {
        CREATE: {"send": "create", "names": str(names)},
        LOOK_UP: {"send": "find", "plants": number},
        PAGE: {"send": "list", "plants": number},
    }
    for index, (name, (form, queries)) in enumerate(targets.items()):
        file = write_targets(folder / f"targets-{index}", form, queries)
        loads[name] = {"send": "get", "targets": str(file)}
    scopes = [f"--scope=plants:{action}" for action in ("create", "read", "update", "delete")]
    port = free_port()
    token = make_token(database, "growth", *scopes)
    with running(plantstore(database, port), port, token) as server:
        yield Store(number, server, loads)


def cpu_us_of_loads(store: Store, round_: int, seconds: int) -> dict[str, float]:
    """Return the CPU time of each operation in microseconds."""
    measured = {}
    for name, what in store.loads.items():
        first_id = CREATED_ID + 2 * round_ * 10**9
        wrk(store.server, CONNECTIONS, WARM_UP_SECONDS, **what, first_id=first_id)
        before = store.server.cpu_seconds()
        load = wrk(store.server, CONNECTIONS, seconds, **what, first_id=first_id + 10**9)
        if load.failed:
            raise RuntimeError(f"{name}: {load.failed} requests failed")
        measured[name] = 1e6 * (store.server.cpu_seconds() - before) / load.requests
    return measured


def cpu_us_of_import(server: Server, round_: int) -> dict[str, float]:
    """Import plants and undo it; return the CPU time for each plant, in microseconds."""
    change_set = secrets.token_hex()
    rows = [
        f"{IMPORTED_ID + round_ * IMPORTED + plant.id},{plant.name},{plant.tag}\n"
        for plant in plants(IMPORTED)
    ]
    body = [b"id,name,tag\n", *(row.encode() for row in rows)]
    imported = send(server, body, CSV, {"Change-Set": change_set})
    before = server.cpu_seconds()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    fields = {"Authorization": f"Bearer {server.token}"}
    connection.request("POST", f"/undo?set={change_set}", headers=fields)
    answer = connection.getresponse()
    said = json.loads(answer.read())
    connection.close()
    if said.get("deleted") != IMPORTED:
        raise RuntimeError(f"an undo was answered with {answer.status}: {said}")
    undo = 1e6 * (server.cpu_seconds() - before) / IMPORTED
    return {IMPORT: imported.cpu_us, UNDO: undo}


def main(sizes: list[int], rounds: int, seconds: int) -> None:
    costs: dict[str, dict[int, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        made = (f"{plant.name}\n" for plant in plants(QUERIES))
        (folder / "names").write_text("".join(made), encoding="utf-8")
        stores = [stack.enter_context(serving(folder, size)) for size in sizes]
        for round_, store in itertools.product(range(rounds), stores):
            measured = cpu_us_of_loads(store, round_, seconds)
            measured |= cpu_us_of_import(store.server, round_)
            print(f"{store.plants:,}: {measured}", file=sys.stderr)
            for operation, cpu_us in measured.items():
                costs.setdefault(operation, {}).setdefault(store.plants, []).append(cpu_us)
    least, most = sizes[0], sizes[-1]
    rows = []
    for operation, by_size in costs.items():
        growth = [b / a for a, b in zip(by_size[least], by_size[most], strict=True)]
        bar = f"≤ {BAR}" if operation in WITH_BAR else "-"
        rows.append(
            [operation, *(f"{median(by_size[size]):,.1f}" for size in sizes), spread(growth), bar]
        )
    header = ["CPU µs of the service", *(f"{size:,} plants" for size in sizes), "growth", "bar"]
    chart = lines(
        "How the cost grows",
        "CPU time of the service in µs, by the number of stored plants",
        [short(size) for size in sizes],
        [
            Line(operation, [median(by_size[size]) for size in sizes])
            for operation, by_size in costs.items()
        ],
    )
    (RESULTS / "growth.svg").write_text(chart, encoding="utf-8")
    write_result(
        "growth",
        f"""# Growth

![How the cost of each operation grows](growth.svg)

{table(header, rows)}

{CONNECTIONS} connections. A page begins after a random id, or at the first three letters of a name.
A search is for one of the twenty most frequent genera, and shows 20 plants. The growth is the cost
at {most:,} plants ÷ the cost at {least:,}.""",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    main(**vars(parser.parse_args()))
