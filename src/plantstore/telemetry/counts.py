"""The counts of one process, or the sum of those of several."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from plantstore.changes import Outcome, PlantOutcome, Result

# The upper bounds of the buckets in seconds, and the methods that are counted by name. Both are
# from OpenTelemetry's semantic conventions for HTTP (`Metric: http.server.request.duration`).
REQUEST_SECONDS: Final = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0,
)  # fmt: skip
METHODS: Final = frozenset(
    {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
)

# A commit takes about a millisecond on a good disk, and up to a second if it waits for another
# process.
COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, *REQUEST_SECONDS)

BATCH_CHANGES: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)


NameT = TypeVar("NameT")


class Distribution(msgspec.Struct):
    """The number of values in each bucket, and the sum of all values."""

    counts: list[int]
    sum: float = 0.0

    def add(self, bounds: Sequence[float], value: float) -> None:
        """Add a value."""
        self.counts[bisect_left(bounds, value)] += 1
        self.sum += value

    def merge(self, other: "Distribution") -> None:
        """Add all values of another distribution."""
        self.counts = [
            ours + theirs for ours, theirs in zip(self.counts, other.counts, strict=True)
        ]
        self.sum += other.sum


def none_yet(bounds: Sequence[float]) -> Distribution:
    """Return an empty distribution."""
    return Distribution([0] * (len(bounds) + 1))


class Counts(msgspec.Struct):
    """The counts of one process, or the sum of those of several."""

    # By route, method, and status.
    requests: dict[tuple[str, str, int], Distribution] = msgspec.field(default_factory=dict)
    batches: Distribution = msgspec.field(default_factory=lambda: none_yet(BATCH_CHANGES))
    commits: Distribution = msgspec.field(default_factory=lambda: none_yet(COMMIT_SECONDS))
    # By outcome, by reason, and by queue.
    changes: dict[str, int] = msgspec.field(default_factory=dict)
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    waiting: dict[str, int] = msgspec.field(default_factory=dict)
    # Rows of imports, by media type and outcome.
    imported: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    log_lines_dropped: int = 0
    # Number of synchronous standbys, by primary and its timeline.
    standbys: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    # Time of the last successful commit, in seconds since 1970; 0 if there was none.
    committed_at: float = 0.0
    cpu_seconds: float = 0.0

    def merge(self, other: "Counts") -> None:
        """Add the counts of another process."""
        for series, distribution in other.requests.items():
            self.requests.setdefault(series, none_yet(REQUEST_SECONDS)).merge(distribution)
        self.batches.merge(other.batches)
        self.commits.merge(other.commits)
        add(self.changes, other.changes)
        add(self.refused, other.refused)
        add(self.waiting, other.waiting)
        add(self.imported, other.imported)
        self.log_lines_dropped += other.log_lines_dropped
        self.standbys |= other.standbys
        self.committed_at = max(self.committed_at, other.committed_at)
        self.cpu_seconds += other.cpu_seconds


def add(counts: dict[NameT, int], others: Mapping[NameT, int]) -> None:
    """Add other counts to these, by name."""
    for name, count in others.items():
        counts[name] = counts.get(name, 0) + count


def count_outcomes(results: Sequence[Result]) -> dict[str, int]:
    """Return how many results have each outcome, by its name. Most batches have few of them."""
    counts: dict[str, int] = {}
    left = len(results)
    for outcome in Outcome:
        if many := results.count(outcome):
            counts[outcome.value] = many
            left -= many
        if not left:
            return counts
    for result in results:
        if isinstance(result, PlantOutcome):
            add(counts, {result.outcome.value: 1})
    return counts
