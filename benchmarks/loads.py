"""Loads of wrk on several servers, by name, in several rounds, with the CPU time of the server."""

import sys
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

from harness import Load, Server, spread, table, wrk

WARM_UP_SECONDS = 1

# What wrk sends, as `loading` takes it.
Requests: TypeAlias = dict[str, str | int]


@dataclass(frozen=True)
class Measured:
    """A load, and the CPU time of the server per successful request."""

    load: Load
    cpu_us: float


@dataclass
class Loads:
    """The measurements of all rounds, by name. Each load takes so many seconds."""

    seconds: int
    measured: dict[str, list[Measured]] = field(default_factory=dict)

    def measure(
        self,
        name: str,
        server: Server,
        connections: int,
        what: Requests,
        warm_up: Requests | None = None,
    ) -> None:
        """Load a server, and add the measurement.

        Before, the server is warmed up with the same requests, or with others if these can be sent
        only once.
        """
        wrk(server, connections, WARM_UP_SECONDS, **(what if warm_up is None else warm_up))
        cpu_seconds = server.cpu_seconds()
        load = wrk(server, connections, self.seconds, **what)
        self.add(name, load, server.cpu_seconds() - cpu_seconds)

    def add(self, name: str, load: Load, cpu_seconds: float = 0) -> None:
        """Add a load; 0 if the CPU time is unknown."""
        succeeded = max(1, load.requests - load.failed)
        self.measured.setdefault(name, []).append(Measured(load, 1e6 * cpu_seconds / succeeded))
        print(f"{name}: {load.rate:,.0f}/s, {load.failed} failed", file=sys.stderr)

    def ratio(self, of: str, to: str, figure: str = "rate", figure_of_to: str = "") -> str:
        """Return the ratio of a figure of two loads, as text."""
        pairs = zip(self.measured[of], self.measured[to], strict=True)
        return spread(
            [getattr(a.load, figure) / getattr(b.load, figure_of_to or figure) for a, b in pairs]
        )

    def cpu_ratio(self, of: str, to: str) -> str:
        """Return the ratio of the CPU times per request of two loads, as text."""
        pairs = zip(self.measured[of], self.measured[to], strict=True)
        return spread([a.cpu_us / b.cpu_us for a, b in pairs])

    def longest_ms(self, name: str) -> float:
        """Return the longest latency of all rounds of a load."""
        return max(each.load.max_ms for each in self.measured[name])

    def table(self) -> str:
        """Return all measurements as a table."""
        rows = []
        for name, measured in self.measured.items():
            loads = [each.load for each in measured]
            cpu_us = median([each.cpu_us for each in measured])
            rows.append(
                [
                    name,
                    f"{median([load.rate for load in loads]):,.0f}",
                    f"{cpu_us:,.0f}" if cpu_us else "-",
                    f"{median([load.p50_ms for load in loads]):.2f}",
                    f"{median([load.p99_ms for load in loads]):.2f}",
                    f"{max(load.max_ms for load in loads):.1f}",
                    str(sum(load.failed for load in loads)),
                ]
            )
        header = ["load", "per second", "CPU µs", "p50 ms", "p99 ms", "longest ms", "failed"]
        return table(header, rows)
