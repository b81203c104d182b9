"""How much do the metrics cost?

The service is measured alternately with metrics, and without metrics and observers, each time on
an empty database. The ratio is the median of the ratios of the rounds. With metrics, they are
also requested every 2.5 seconds, far more often than usual.
"""

import tempfile
import threading
import urllib.request
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


def measure(name: str) -> Load:
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
            with loading(server, 64, SECONDS) as load:
                seen = load()
            over.set()
            if is_counted:
                scraper.join()
            return seen


def main() -> None:
    loads: dict[str, list[Load]] = {}
    for number in range(ROUNDS):
        for name in SERVERS if number % 2 else reversed(SERVERS):
            loads.setdefault(name, []).append(measure(name))
    rows = [
        [
            name,
            f"{median([load.rate for load in seen]):,.0f}",
            f"{median([load.p50_ms for load in seen]):.2f}",
            f"{median([load.p99_ms for load in seen]):.2f}",
            str(sum(load.failed for load in seen)),
        ]
        for name, seen in loads.items()
    ]
    ratios = [
        counted.rate / without.rate
        for counted, without in zip(loads["with metrics"], loads["without metrics"], strict=True)
    ]
    write_result(
        "observation",
        "# Cost of metrics\n\n"
        + table(["64 connections", "creates/s", "p50 ms", "p99 ms", "failed"], rows)
        + "\n\n"
        + table(
            ["", "measured", "bar"],
            [["creates/s, with metrics ÷ without metrics", spread(ratios, 3), "≥ 0.97"]],
        ),
    )


if __name__ == "__main__":
    main()
