"""Tables of the costs of attacks; `make soak` writes them to benchmarks/results/.

A run of a part of the suite does not change them.
"""

from collections.abc import Iterator

import pytest

from harness import table, write_result
from long.measured import OPERATIONS


def _is_whole(config: pytest.Config) -> bool:
    """Return whether the whole suite runs."""
    options = config.option
    return options.file_or_dir == ["tests/long"] and not (options.keyword or options.deselect)


class Findings:
    """Three tables of measurements of attacks."""

    def __init__(self) -> None:
        self.costs: list[list[str]] = []
        self.kept: list[list[str]] = []
        self.waits: list[list[str]] = []

    def add_kept(self, what: str, connections: int, sent: int, kept: float) -> None:
        """Add the memory that each of these connections keeps, which sent so many bytes."""
        per_byte = f"{kept / sent:.1f}" if sent else "-"
        self.kept.append([what, f"{connections:,}", f"{sent:,}", f"{kept:,.0f}", per_byte])

    def as_text(self) -> str:
        costs = table(
            ["request", "client", "bytes in", "in and out", "µs", "ns per byte", "ratio", "bar"],
            self.costs,
        )
        kept = table(
            ["sent", "connections", "bytes sent", "bytes kept", "kept per byte"], self.kept
        )
        waits = table(["200 connections send", *OPERATIONS], self.waits)
        return _FINDINGS.format(costs=costs, kept=kept, waits=waits)


_FINDINGS = """\
# Costs of attacks

## CPU

The CPU time that all threads of the server need for one request: the median of several, and its
ratio to the CPU time of a valid create with the same number of bytes, in and out. For an import or
an undo, it is the ratio to a valid import of the same size, with rows of usual length. If a request
is sent in many packets, the headers of the packets count as bytes too.

{costs}

## Memory

The memory that the server keeps for a connection that sends this and then waits. The limit is 4
times the bytes sent, plus 64 KiB.

{kept}

## Fairness

The 99th percentile of the time that one normal client waits for each operation, in ms, beside 200
connections that send the same request repeatedly. The limit is 1,000.

{waits}

`make soak` measures this again."""


@pytest.fixture(scope="session")
def findings(request: pytest.FixtureRequest) -> Iterator[Findings]:
    found = Findings()
    yield found
    if _is_whole(request.config):
        write_result("adversary", found.as_text())
