"""Measurements of transfers of plants, by name, in several rounds."""

import sys
from dataclasses import dataclass, field
from statistics import median

from harness import Load, spread, table


@dataclass(frozen=True)
class Transfer:
    """A number of plants, the seconds that they took, and the CPU seconds of the service."""

    plants: int
    seconds: float
    cpu_seconds: float = 0

    @property
    def rate(self) -> float:
        """Plants per second."""
        return self.plants / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the service per plant."""
        return 1e6 * self.cpu_seconds / self.plants


@dataclass
class Seen:
    """The measurements of all rounds, by name. A load of wrk is a transfer, too."""

    transfers: dict[str, list[Transfer]] = field(default_factory=dict)
    loads: dict[str, list[Load]] = field(default_factory=dict)

    def add(self, name: str, transfer: Transfer) -> None:
        """Add a transfer."""
        self.transfers.setdefault(name, []).append(transfer)
        print(f"{name}: {transfer.rate:,.0f} plants/s", file=sys.stderr)

    def add_load(self, name: str, load: Load, rows: int = 1, cpu_seconds: float = 0) -> None:
        """Add a load. Each of its requests had this many plants."""
        self.loads.setdefault(name, []).append(load)
        plants = rows * (load.requests - load.failed)
        self.add(name, Transfer(plants, load.seconds, cpu_seconds))

    def rate_ratio(self, of: str, to: str) -> str:
        """Return the ratio of two rates, as text."""
        pairs = zip(self.transfers[of], self.transfers[to], strict=True)
        return spread([a.rate / b.rate for a, b in pairs])

    def p99_ratio(self, of: str, to: str) -> str:
        """Return the ratio of the p99 of two loads, as text."""
        pairs = zip(self.loads[of], self.loads[to], strict=True)
        return spread([a.p99_ms / b.p99_ms for a, b in pairs])

    def table(self) -> str:
        """Return all measurements as a table."""
        rows = []
        for name, transfers in self.transfers.items():
            cpu_us = median([transfer.cpu_us for transfer in transfers])
            loads = self.loads.get(name, [])
            rows.append(
                [
                    name,
                    spread([transfer.rate / 1000 for transfer in transfers], 1),
                    f"{cpu_us:.1f}" if cpu_us else "-",
                    f"{median([load.p50_ms for load in loads]):.1f}" if loads else "-",
                    f"{median([load.p99_ms for load in loads]):.1f}" if loads else "-",
                    str(sum(load.failed for load in loads)) if loads else "-",
                ]
            )
        header = ["load", "1,000 plants/s", "CPU µs per plant", "p50 ms", "p99 ms", "failed"]
        return table(header, rows)
