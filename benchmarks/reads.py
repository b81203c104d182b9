"""How fast are reads when ten million plants are stored, and how fast are creates during reads?

The servers run at the same time and are loaded alternately, so variations of the machine affect
all of them. The ratios are medians of the ratios of the rounds.
"""

import contextlib
import tempfile
from pathlib import Path
from statistics import median

from harness import (
    Load,
    Server,
    fill,
    free_port,
    loading,
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
CONNECTIONS = 64
LISTERS = 16
FEW, MANY = 1_000, 10_000_000


def row(name: str, loads: list[Load]) -> list[str]:
    return [
        name,
        f"{median([load.rate for load in loads]):,.0f}",
        f"{median([load.p50_ms for load in loads]):.2f}",
        f"{median([load.p99_ms for load in loads]):.2f}",
        f"{max(load.max_ms for load in loads):.1f}",
        str(sum(load.failed for load in loads)),
    ]


def ratio(of: list[Load], to: list[Load]) -> list[float]:
    return [a.rate / b.rate for a, b in zip(of, to, strict=True)]


def reads(servers: dict[str, Server]) -> tuple[list[list[str]], list[list[str]]]:
    loads: dict[str, list[Load]] = {}
    for _ in range(ROUNDS):
        for name, server, send, plants in (
            ("pages, 1,000 plants", servers["few"], "list", FEW),
            ("pages, 10 million plants", servers["many"], "list", MANY),
            ("no-op", servers["no-op"], "find", MANY),
            ("one plant, 10 million plants", servers["many"], "find", MANY),
        ):
            wrk(server, CONNECTIONS, 1, send=send, plants=plants)
            load = wrk(server, CONNECTIONS, SECONDS, send=send, plants=plants)
            loads.setdefault(name, []).append(load)
    few, many, noop, one = loads.values()
    figures = [
        ["pages/s at 10 million plants ÷ at 1,000", spread(ratio(many, few)), "≥ 0.7"],
        ["GET /plants/{id} per second ÷ no-op handler", spread(ratio(one, noop)), "≥ 0.5"],
    ]
    return figures, [row(name, seen) for name, seen in loads.items()]


def creates_beside(server: Server) -> tuple[list[list[str]], list[list[str]]]:
    alone, beside, pages, shares, pages_alone = [], [], [], [], []
    for number in range(ROUNDS):
        first_id = 10**12 + number * 10**9
        alone.append(wrk(server, CONNECTIONS, SECONDS, first_id=first_id))
        before = server.cpu_seconds()
        listing = wrk(server, LISTERS, SECONDS, send="list", plants=MANY)
        page_cpu = (server.cpu_seconds() - before) / listing.requests
        pages_alone.append(listing)
        with loading(server, LISTERS, SECONDS + 2, send="list", plants=MANY) as listed:
            beside.append(wrk(server, CONNECTIONS, SECONDS, first_id=first_id + 10**8))
            pages.append(listed())
        shares.append(page_cpu * pages[-1].rate)
    figures = [
        [
            "creates/s beside 16 listing connections ÷ creates/s alone",
            spread(ratio(beside, alone)),
            "-",
        ],
        ["CPU of these listings, in cores", spread(shares), "-"],
        [
            "longest latency of a create during the listings, ms",
            f"{max(load.max_ms for load in beside):.1f}",
            "≤ 100",
        ],
    ]
    return figures, [
        row("creates alone", alone),
        row("creates beside 16 listing connections", beside),
        row("pages, 16 connections, alone", pages_alone),
        row("pages, 16 connections, beside creates", pages),
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        few, many = Path(folder) / "few.db", Path(folder) / "many.db"
        fill(few, FEW)
        fill(many, MANY)
        servers = {}
        for name, database in (("few", few), ("many", many), ("no-op", few)):
            port = free_port()
            command = (
                script("noop.py", few, port) if name == "no-op" else plantstore(database, port)
            )
            token = make_token(database, name)
            servers[name] = stack.enter_context(running(command, port, token))
        figures, rows = reads(servers)
        more_figures, more_rows = creates_beside(servers["many"])
        resident = f"{servers['many'].resident_mib():.0f} MiB of resident memory at the end"
    ratios = table(["figure", "measured", "bar"], figures + more_figures)
    absolute = table(
        ["load", "per second", "p50 ms", "p99 ms", "longest ms", "failed"], rows + more_rows
    )
    about = (
        f"{CONNECTIONS} connections unless stated; pages of 100 plants after a random id;"
        f" {resident}."
    )
    write_result("reads", f"# Reads\n\n{ratios}\n\n{absolute}\n\n{about}")


if __name__ == "__main__":
    main()
