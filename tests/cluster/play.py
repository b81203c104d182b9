"""Run rounds of faults on a PostgreSQL cluster.

A run of all faults writes benchmarks/results/cluster.md, and its figures into docs/postgresql.md.
"""

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from cluster.cluster import running_cluster
from cluster.faults import EXPERIMENTS, FAULTS, FIRST_FAULTS, Fault
from cluster.page import PAGE, with_measured
from cluster.rounds import REVOKE_SECONDS_MAX, Result, play
from harness import table, write_result

HEADER = [
    *("fault", "rounds", "acknowledged", "lost", "stale reads", "stale reads after the move"),
    *("longest time without a 200", "revoked token accepted for"),
]
_TEXT = """\
# Faults of a cluster

The cluster has three nodes of PostgreSQL with Patroni, a synchronous standby, a TTL of 20 s and no
watchdog. Two instances of the service have the URL of all three nodes. 16 connections change
plants, and four read plants that either instance has just acknowledged.

{table}

- lost: acknowledged changes that the primary does not have at the end of the round.
- stale reads: the plant is missing, or it is older than the version that was acknowledged before
  the read. After the move: stale reads by an instance whose changes already went to the new
  primary.
- longest time without a 200: the longest time during which one of the instances acknowledged no
  change, in any round.
- revoked token accepted for: the time since the token was revoked on the new primary, during the
  fault.

{unexpected} The rounds run with and without `synchronous_mode_strict`, unless the fault is
about this setting. `make cluster` runs them again."""


def main() -> int:
    """Run the requested rounds; return 1 if a change was lost, except in an experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds",
        type=int,
        help="rounds of the first four faults, or of each fault that --only selects",
    )
    parser.add_argument("--only", help="run only the faults whose name contains this")
    given = parser.parse_args()
    # SIGTERM and SIGINT raise KeyboardInterrupt, so that each block ends its own programs.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    faults = FIRST_FAULTS if given.rounds and not given.only else FAULTS + EXPERIMENTS
    results: list[tuple[Fault, Result]] = []
    with running_cluster() as cluster, tempfile.TemporaryDirectory() as folder:
        for fault in faults:
            if given.only and given.only not in fault.name:
                continue
            for number in range(given.rounds or fault.rounds):
                began = time.monotonic()
                results.append((fault, play(cluster, fault, number, Path(folder))))
                seconds = time.monotonic() - began
                print(f"{seconds:3.0f} s", _rows(results[-1:]), flush=True)  # noqa: T201
    if given.rounds or given.only:
        print(_as_text(results))  # noqa: T201
    else:
        write_result("cluster", _as_text(results))
        measured = {row[0]: [row[3], row[4], row[6]] for row in _rows(results)}
        PAGE.write_text(with_measured(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8")
    return int(any(result.lost for fault, result in results if fault not in EXPERIMENTS))


def _as_text(results: list[tuple[Fault, Result]]) -> str:
    # An experiment loses plants, so later changes of these plants get unexpected responses.
    counts = (result.unexpected for fault, result in results if fault not in EXPERIMENTS)
    unexpected = sum(counts, Counter[str]())
    said = ", ".join(f"{count} × {what}" for what, count in unexpected.items())
    return _TEXT.format(
        table=table(HEADER, _rows(results)),
        unexpected=f"Unexpected: {said}." if said else "All responses were 200, 204 or 503.",
    )


def _rows(results: list[tuple[Fault, Result]]) -> list[list[str]]:
    """Return a row for each fault, over all of its rounds."""
    names = dict.fromkeys(fault.name for fault, _ in results)
    return [
        _row(name, [result for fault, result in results if fault.name == name]) for name in names
    ]


def _row(name: str, results: list[Result]) -> list[str]:
    token_seconds = max(result.token_seconds for result in results)
    return [
        name,
        f"{len(results)}",
        f"{sum(result.acknowledged for result in results):,}",
        f"{sum(result.lost for result in results):,}",
        f"{sum(result.stale for result in results):,}",
        f"{sum(result.stale_after_move for result in results):,}",
        f"{max(result.seconds_without_change for result in results):.1f} s",
        f"{token_seconds:.1f} s"
        if token_seconds < REVOKE_SECONDS_MAX - 1
        else f"> {REVOKE_SECONDS_MAX} s",
    ]


if __name__ == "__main__":
    sys.exit(main())
