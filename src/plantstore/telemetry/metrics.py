"""Counts events, and renders the counts as metrics for Prometheus.

Theory of operation
-------------------
Counting must cost a request almost no time. So the child of a metric for a combination of labels
is looked up only once, and the values of histograms are added to plain lists. The lists, and
figures that no event reports, such as the lengths of queues, are handed to prometheus_client when
a client requests the metrics.

With several workers, each worker can report the metrics of all, by prometheus_client's
multiprocess mode: the values of a process are in files that are mapped into its memory, and the
worker that gets the request adds up all files. The files of a process that ended remain, so
counters never decrease, except the files of its gauges. Each process hands its figures over once a
second.
"""

import contextlib
import os
import platform
import stat
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    values,
)
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from plantstore import __version__
from plantstore.changes import Outcome, PlantOutcome
from plantstore.commit.imports import RowCounts
from plantstore.errors import ErrorCode
from plantstore.formats import MEDIA_TYPES
from plantstore.observe import Answered, Committed, Event, Imported, RequestRefused, ServerChanged

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


class _Distribution:
    """Counts values in the buckets of a histogram.

    `Histogram.observe` takes three times as long, and seven times with several workers. Only one
    thread may call `observe`, and one at a time `hand_over`.
    """

    def __init__(self, histogram: Histogram, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        # The library has no public function to add many values.
        self._values = [*histogram._buckets, histogram._sum]  # noqa: SLF001
        self._handed_over = [0.0] * len(self._values)

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def hand_over(self) -> None:
        """Add what was counted since the last call to the histogram."""
        counted = [*self._counts, self._sum]
        for value, now, before in zip(self._values, counted, self._handed_over, strict=True):
            if now != before:
                value.inc(now - before)
        self._handed_over = counted


class Metrics(Collector):
    """Counts events, and renders the counts.

    Args:
        folder: where the processes of one service, all children of one parent, share their
            counts. None for a single process. A process has only one folder.
        log_lines_dropped: returns the number of log lines that could not be written.

    """

    def __init__(
        self, folder: Path | None = None, log_lines_dropped: Callable[[], int] = int
    ) -> None:
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._folder = folder if folder is not None and _is_ours(folder) else None
        if self._folder is not None:
            _share_in(self._folder)
            MultiProcessCollector(self._registry, str(self._folder))
        # Where metrics are shared, the library takes them from the files.
        registry = self._registry if self._folder is None else None
        self._define(registry)
        self._durations: dict[tuple[str, str, int], _Distribution] = {}
        self._queues: dict[str, Callable[[], int]] = {}
        self._log_lines_dropped = log_lines_dropped
        self._server = ServerChanged(None, None, 0)
        self._lock = threading.Lock()
        if self._folder is not None:
            threading.Thread(target=self._keep_sharing, name="metrics", daemon=True).start()

    def _define(self, registry: CollectorRegistry | None) -> None:
        """Define what events change, and then what is read because no event reports it."""
        counter = partial(Counter, registry=registry)
        gauge = partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self._requests = histogram(
            "http_server_request_duration_seconds",
            "Time from the head of a request to its answer.",
            ["http_route", "http_request_method", "http_response_status_code"],
            buckets=REQUEST_SECONDS,
        )
        batches = histogram(
            "plantstore_batch_changes", "Changes in one transaction.", buckets=BATCH_CHANGES
        )
        self._batches = _Distribution(batches, BATCH_CHANGES)
        commits = histogram(
            "plantstore_commit_duration_seconds",
            "Duration of one transaction.",
            buckets=COMMIT_SECONDS,
        )
        self._commits = _Distribution(commits, COMMIT_SECONDS)
        self._committed_at = gauge(
            "plantstore_last_commit_timestamp_seconds",
            "Time of the last successful commit, in seconds since 1970; 0 if there was none.",
            multiprocess_mode="max",
        )
        # A counter that exists from the start shows its first increase (Prometheus,
        # "Instrumentation: Avoid missing metrics").
        changes = counter("plantstore_changes", "Changes in committed transactions.", ["outcome"])
        self._changes = {outcome: changes.labels(outcome.value) for outcome in Outcome}
        refused = counter("plantstore_refused", "Errors that clients were sent.", ["reason"])
        self._refused = {code: refused.labels(code.name.lower()) for code in ErrorCode}
        imported = counter(
            "plantstore_imported_rows", "Rows of imports over HTTP.", ["media_type", "outcome"]
        )
        self._imported = {
            labels: imported.labels(*labels)
            for labels in product(MEDIA_TYPES, RowCounts.__struct_fields__)
        }
        self._waiting = gauge(
            "plantstore_queue_waiting",
            "Requests that wait for the store.",
            ["queue"],
            multiprocess_mode="livesum",
        )
        self._dropped = counter(
            "plantstore_log_lines_dropped", "Lines of the log that could not be written."
        )
        self._cpu = counter(
            "process_cpu_seconds", "Total user and system CPU time spent in seconds."
        )
        self._last_read = dict.fromkeys((self._dropped, self._cpu), 0.0)
        self._process = {
            metric.name: gauge(
                metric.name,
                metric.documentation,
                multiprocess_mode="livemin" if "start_time" in metric.name else "livesum",
            )
            for metric in ProcessCollector(registry=None).collect()
            if metric.type == "gauge"
        }

    def observe(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, Answered):
            series = (event.route, event.request["method"], event.status)
            (self._durations.get(series) or self._bind(*series)).observe(event.seconds)
        elif isinstance(event, Committed):
            self._count_batch(event)
        elif isinstance(event, ServerChanged):
            self._server = event
        elif isinstance(event, RequestRefused):
            self._refused[event.code].inc()
        elif isinstance(event, Imported):
            for kind, rows in event.counts.items():
                self._imported[event.media_type, kind].inc(rows)

    def _count_batch(self, event: Committed) -> None:
        self._batches.observe(len(event.outcomes))
        self._commits.observe(event.seconds)
        self._committed_at.set(time.time())
        # To count equal results is faster than to look each one up, and most batches have few.
        left = len(event.outcomes)
        for outcome, changes in self._changes.items():
            if many := event.outcomes.count(outcome):
                changes.inc(many)
                left -= many
            if not left:
                return
        for result in event.outcomes:
            if isinstance(result, PlantOutcome):
                self._changes[result.outcome].inc()

    def _bind(self, route: str, method: str, status: int) -> _Distribution:
        """Return the durations of such requests."""
        series = (route, method if method in METHODS else "_OTHER", status)
        if series not in self._durations:
            durations = self._requests.labels(*series)
            self._durations[series] = _Distribution(durations, REQUEST_SECONDS)
        return self._durations[series]

    def watch_queue(self, name: str, depth: Callable[[], int]) -> None:
        """Include the length of a queue in the metrics."""
        self._queues[name] = depth

    @property
    def renderings(self) -> dict[str, Callable[[], bytes]]:
        """Return a function that renders the metrics for each media type, the default one first."""
        return {
            CONTENT_TYPE_PLAIN_0_0_4: partial(self._render, generate_latest),
            openmetrics.CONTENT_TYPE_LATEST: partial(self._render, openmetrics.generate_latest),
        }

    def _render(self, generate: Callable[[CollectorRegistry], bytes]) -> bytes:
        self._hand_over()
        if self._folder is not None:
            _forget_ended_processes(self._folder)
        return generate(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics that each process reports for itself; the registry calls this."""
        # Workers of one service find the same primary. Their sum would be wrong.
        standbys = GaugeMetricFamily(
            "plantstore_synchronous_standbys",
            "Synchronous standbys that a commit waits for, by primary and its timeline.",
            labels=["server", "timeline"],
        )
        if (server := self._server).server:
            standbys.add_metric([server.server, str(server.timeline or "")], server.standbys)
        yield standbys
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("plantstore_build", "Versions of the service and of Python.", build)

    def _hand_over(self) -> None:
        """Hand the values of histograms, and figures that no event reports, to the library."""
        with self._lock:
            # list() copies in one step, so the event loop may add to the dictionary at any time.
            for distribution in (self._batches, self._commits, *list(self._durations.values())):
                distribution.hand_over()
            for name, depth in self._queues.items():
                self._waiting.labels(name).set(depth())
            for metric in ProcessCollector(registry=None).collect():
                if metric.name in self._process:
                    self._process[metric.name].set(metric.samples[0].value)
            self._count_up_to(self._dropped, self._log_lines_dropped())
            self._count_up_to(self._cpu, time.process_time())

    def _count_up_to(self, counter: Counter, value: float) -> None:
        counter.inc(value - self._last_read[counter])
        self._last_read[counter] = value

    def _keep_sharing(self) -> None:
        while True:
            time.sleep(SHARE_SECONDS)
            self._hand_over()


def _is_ours(folder: Path) -> bool:
    """Return whether a folder belongs to this user. It is created if it is missing.

    If something removed the folder, another user may have created one of the same name, with links
    to files of this user.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _share_in(folder: Path) -> None:
    """Let prometheus_client keep the values of this process in files.

    The library reads the variable when it is imported, and again when it opens a file. Our modules
    import it before they know the settings. So this function makes the choice that the import
    would have made. No other module changes the environment.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    values.ValueClass = values.MultiProcessValue()


def _forget_ended_processes(folder: Path) -> None:
    """Remove the gauges of processes that have ended."""
    for file in folder.glob("gauge_live*.db"):
        pid = int(file.stem.rpartition("_")[2])
        if pid != os.getpid() and not _is_sibling(pid):
            with contextlib.suppress(FileNotFoundError):  # another worker removed it
                mark_process_dead(pid, str(folder))


def _is_sibling(pid: int) -> bool:
    """Return whether a process is alive and has the parent of this one.

    The id of a process that ended may belong to an unrelated process now.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name of the program is in parentheses, and may contain anything (proc_pid_stat(5)).
    state, parent = status.rpartition(b")")[2].split()[:2]
    return state != b"Z" and int(parent) == os.getppid()
