"""Counts events, and renders the counts as metrics for Prometheus.

Theory of operation
-------------------
Counting must cost a request almost no time. So a process counts in dictionaries and lists, and
prometheus_client only renders them when a client requests the metrics.

With several workers, each worker can report the metrics of all. A process writes its counts to a
file of a shared folder once a second, and the worker that gets the request adds up all files. The
files of a process that ended remain, so counters never decrease. Its gauges count no longer.
"""

import contextlib
import operator
import os
import platform
import stat
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, product
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from plantstore import __version__
from plantstore.changes import Outcome, PlantOutcome
from plantstore.commit.imports import RowCounts
from plantstore.errors import ErrorCode
from plantstore.formats import FORMATS
from plantstore.observe import Committed, Event, Imported, RequestRefused, Responded, ServerChanged

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

# Maximum age of the figures of another worker.
SHARE_SECONDS: Final = 1.0

# Age of a file whose process has ended. A process writes its file every SHARE_SECONDS.
ENDED_SECONDS: Final = 10.0

REQUESTS: Final = "http_server_request_duration_seconds"
BATCHES: Final = "plantstore_batch_changes"
COMMITS: Final = "plantstore_commit_duration_seconds"
COMMITTED_AT: Final = "plantstore_last_commit_timestamp_seconds"
CHANGES: Final = "plantstore_changes"
REFUSED: Final = "plantstore_refused"
IMPORTED: Final = "plantstore_imported_rows"
WAITING: Final = "plantstore_queue_waiting"
DROPPED: Final = "plantstore_log_lines_dropped"

_BOUNDS: Final = {REQUESTS: REQUEST_SECONDS, BATCHES: BATCH_CHANGES, COMMITS: COMMIT_SECONDS}

# How the gauges of several processes become one. They are added, if they are not here.
_COMBINED_BY: Final[dict[str, Callable[[Iterable[float]], float]]] = {
    COMMITTED_AT: max,
    "process_start_time_seconds": min,
}

# The name of a metric, and the values of its labels.
Series: TypeAlias = tuple[str, ...]


class Counts(msgspec.Struct):
    """What a process counted.

    Attributes:
        counters: numbers that only increase.
        histograms: the number of values in each bucket, then of those above all bounds, and then
            the sum of the values.
        gauges: numbers that increase and decrease.

    """

    counters: dict[Series, float]
    histograms: dict[Series, list[float]]
    gauges: dict[Series, float]

    def add(self, other: "Counts", *, has_ended: bool) -> None:
        """Add the counts of another process, without most gauges if it has ended."""
        for series, count in other.counters.items():
            self.counters[series] = self.counters.get(series, 0) + count
        for series, counts in other.histograms.items():
            ours = self.histograms.get(series, [0] * len(counts))
            self.histograms[series] = [*map(operator.add, ours, counts)]
        for series, number in other.gauges.items():
            combine = _COMBINED_BY.get(series[0], sum)
            if combine is max or not has_ended:
                known = [self.gauges[series]] if series in self.gauges else []
                self.gauges[series] = combine([*known, number])


class Metrics(Collector):
    """Counts events, and renders the counts.

    Args:
        folder: where the processes of one service share their counts; None for a single process.
        log_lines_dropped: returns the number of log lines that could not be written.

    """

    def __init__(
        self, folder: Path | None = None, log_lines_dropped: Callable[[], int] = lambda: 0
    ) -> None:
        self._changes = {outcome: (CHANGES, outcome.value) for outcome in Outcome}
        self._refused = {code: (REFUSED, code.name.lower()) for code in ErrorCode}
        media_types = sorted({each.media_type for each in FORMATS.values()})
        imported = product([IMPORTED], media_types, RowCounts.__struct_fields__)
        # A counter that exists from the start shows its first increase (Prometheus,
        # "Instrumentation: Avoid missing metrics").
        self._counters: dict[Series, float] = dict.fromkeys(
            (*self._changes.values(), *self._refused.values(), *imported), 0
        )
        self._batches, self._commits = _empty(BATCHES), _empty(COMMITS)
        self._histograms: dict[Series, list[float]] = {
            (BATCHES,): self._batches,
            (COMMITS,): self._commits,
        }
        self._gauges: dict[Series, float] = {(COMMITTED_AT,): 0}
        # The durations of requests, also in _histograms, by a key that is faster to make.
        self._durations: dict[tuple[str, str, int], list[float]] = {}
        self._queues: dict[str, Callable[[], int]] = {}
        self._log_lines_dropped = log_lines_dropped
        self._server = ServerChanged(None, 0)
        self._folder = folder
        self._lock = threading.Lock()
        if folder is not None:
            threading.Thread(target=self._keep_sharing, name="metrics", daemon=True).start()

    def observe(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, Responded):
            series = (event.request.route, event.request.method, event.status)
            durations = self._durations.get(series) or self._bind(*series)
            durations[bisect_left(REQUEST_SECONDS, event.seconds)] += 1
            durations[-1] += event.seconds
        elif isinstance(event, Committed):
            self._count_batch(event)
        elif isinstance(event, ServerChanged):
            self._server = event
        elif isinstance(event, RequestRefused):
            self._counters[self._refused[event.code]] += 1
        elif isinstance(event, Imported):
            for kind, rows in event.counts.items():
                self._counters[IMPORTED, event.media_type, kind] += rows

    def _count_batch(self, event: Committed) -> None:
        size = len(event.outcomes)
        self._batches[bisect_left(BATCH_CHANGES, size)] += 1
        self._batches[-1] += size
        self._commits[bisect_left(COMMIT_SECONDS, event.seconds)] += 1
        self._commits[-1] += event.seconds
        self._gauges[COMMITTED_AT,] = time.time()
        # To count equal results is faster than to look each one up, and most batches have few.
        for outcome, series in self._changes.items():
            if many := event.outcomes.count(outcome):
                self._counters[series] += many
                size -= many
            if not size:
                return
        for result in event.outcomes:
            if isinstance(result, PlantOutcome):
                self._counters[self._changes[result.outcome]] += 1

    def _bind(self, route: str, method: str, status: int) -> list[float]:
        """Return the durations of such requests."""
        labels = (route, method if method in METHODS else "_OTHER", status)
        if labels not in self._durations:
            self._durations[labels] = _empty(REQUESTS)
            self._histograms[REQUESTS, *labels[:2], str(status)] = self._durations[labels]
        return self._durations[labels]

    def watch_queue(self, name: str, depth: Callable[[], int]) -> None:
        """Include the length of a queue in the metrics."""
        self._queues[name] = depth

    def render(self) -> bytes:
        """Return the metrics in the text format of Prometheus, version 0.0.4."""
        return generate_latest(self)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; `render` calls this."""
        counts = self._add_up()
        families = _families()
        for (name, *labels), count in {**counts.counters, **counts.gauges}.items():
            families[name].add_metric(labels, count)
        for (name, *labels), (*values, total) in counts.histograms.items():
            bounds = [*map(str, _BOUNDS[name]), "+Inf"]
            buckets = [*zip(bounds, accumulate(values), strict=True)]
            families[name].add_metric(labels, buckets, total)
        yield from families.values()
        # Workers of one service find the same primary. Their sum would be wrong.
        standbys = GaugeMetricFamily(
            "plantstore_synchronous_standbys",
            "Synchronous standbys that a commit waits for, by primary.",
            labels=["server"],
        )
        if (server := self._server).server:
            standbys.add_metric([server.server], server.standbys)
        yield standbys
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("plantstore_build", "Versions of the service and of Python.", build)

    def _add_up(self) -> Counts:
        """Return the counts of this process, or of all that share theirs."""
        total = msgspec.msgpack.decode(self._share(), type=Counts)
        if self._folder is not None and make_own_folder(self._folder):
            for file in self._folder.glob("*.counts"):
                if file.stem != str(os.getpid()):
                    has_ended = time.time() - file.stat().st_mtime > ENDED_SECONDS
                    other = msgspec.msgpack.decode(file.read_bytes(), type=Counts)
                    total.add(other, has_ended=has_ended)
        return total

    def _share(self) -> bytes:
        """Return the counts of this process, and write them to its file if there are others."""
        with self._lock:
            for name, depth in self._queues.items():
                self._gauges[WAITING, name] = depth()
            for metric in _process_metrics():
                group = self._counters if metric.type == "counter" else self._gauges
                group[metric.name,] = metric.samples[0].value
            self._counters[DROPPED,] = self._log_lines_dropped()
            # One step: other threads count at any time.
            counts = Counts(self._counters, self._histograms, self._gauges)
            content = msgspec.msgpack.encode(counts)
            with contextlib.suppress(OSError):  # such as a full disk
                if self._folder is not None and make_own_folder(self._folder):
                    new = self._folder / f"{os.getpid()}.new"
                    new.write_bytes(content)
                    new.replace(new.with_suffix(".counts"))
        return content

    def _keep_sharing(self) -> None:
        while True:
            self._share()
            time.sleep(SHARE_SECONDS)


def _empty(name: str) -> list[float]:
    """Return a histogram without values."""
    return [0] * (len(_BOUNDS[name]) + 2)


def _families() -> dict[str, Any]:
    """Return the metrics without values, by name."""
    families = (
        HistogramMetricFamily(
            REQUESTS,
            "Time from the head of a request to its response.",
            labels=["http_route", "http_request_method", "http_response_status_code"],
        ),
        HistogramMetricFamily(BATCHES, "Changes in one transaction.", labels=[]),
        HistogramMetricFamily(COMMITS, "Duration of one transaction.", labels=[]),
        GaugeMetricFamily(
            COMMITTED_AT,
            "Time of the last successful commit, in seconds since 1970; 0 if there was none.",
            labels=[],
        ),
        CounterMetricFamily(CHANGES, "Changes in committed transactions.", labels=["outcome"]),
        CounterMetricFamily(REFUSED, "Errors that clients were sent.", labels=["reason"]),
        CounterMetricFamily(
            IMPORTED, "Rows of imports over HTTP.", labels=["media_type", "outcome"]
        ),
        GaugeMetricFamily(WAITING, "Requests that wait for the store.", labels=["queue"]),
        CounterMetricFamily(DROPPED, "Lines of the log that could not be written.", labels=[]),
    )
    of_process = [*_process_metrics()]
    for family in of_process:
        family.samples.clear()
    return {family.name: family for family in (*families, *of_process)}


def _process_metrics() -> Iterable[Metric]:
    return ProcessCollector(registry=None).collect()


def make_own_folder(folder: Path) -> bool:
    """Create a folder if it is missing; return whether it belongs to this user.

    If something removed the folder, another user may have created one of the same name, with links
    to files of this user.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
