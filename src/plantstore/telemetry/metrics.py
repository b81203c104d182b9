"""What happened, counted, in the form that Prometheus reads.

Theory of operation
-------------------
A request must not pay for being counted, so an observer does no more than add to
plain lists and dictionaries; who asks for the metrics pays for making them. Each is
added to by one thread alone (requests and refusals by the event loop, batches by the
writer's), and copied in one step by whoever reads.

Whichever of several workers is asked answers for all: once a second each leaves what
it counted in a file of its own, and who is asked adds them up. What a worker counted
stays when it dies, but for its last second; so counters never go back.
"""

import contextlib
import math
import os
import platform
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from plantstore import __version__
from plantstore.observe import Answered, Committed, Event, RequestRefused, ServerChanged
from plantstore.store import Outcome
from plantstore.telemetry.counts import (
    BATCH_CHANGES,
    COMMIT_SECONDS,
    METHODS,
    REQUEST_SECONDS,
    Counts,
    Distribution,
    add,
    none_yet,
)

# How old what another worker counted may be.
SHARE_SECONDS: Final = 1.0


class Metrics(Collector):
    """Counts what it observes, and renders what was counted.

    Args:
        folder: where the workers of one service leave what they counted; None if
            there is just one.

    """

    def __init__(self, folder: Path | None = None) -> None:
        self._counts = Counts()
        self._queues: dict[str, Callable[[], int]] = {}
        self._log_lines_dropped: Callable[[], int] = int
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._folder = folder
        if folder is not None:
            # A process may have the id of one that is gone.
            self._file_lock = threading.Lock()
            self._file = folder / f"{os.getpid()}-{time.monotonic_ns()}"
            threading.Thread(target=self._share, name="metrics", daemon=True).start()

    def observe(self, event: Event) -> None:
        """Count an event."""
        counts = self._counts
        if isinstance(event, Answered):
            series = (event.route, event.request["method"], event.status)
            distribution = counts.requests.get(series) or self._find(series)
            distribution.counts[bisect_left(REQUEST_SECONDS, event.seconds)] += 1
            distribution.sum += event.seconds
        elif isinstance(event, Committed):
            counts.batches.add(BATCH_CHANGES, len(event.outcomes))
            counts.commits.add(COMMIT_SECONDS, event.seconds)
            counts.committed_at = time.time()
            for outcome in Outcome:
                if many := event.outcomes.count(outcome):
                    add(counts.changes, {outcome.value: many})
        elif isinstance(event, ServerChanged):
            counts.standbys = (
                {(event.server, str(event.timeline or "")): event.standbys} if event.server else {}
            )
        elif isinstance(event, RequestRefused):
            add(counts.refused, {event.code.name.lower(): 1})

    def _find(self, series: tuple[str, str, int]) -> Distribution:
        route, method, status = series
        series = (route, method if method in METHODS else "_OTHER", status)
        return self._counts.requests.setdefault(series, none_yet(REQUEST_SECONDS))

    def watch_queue(self, name: str, depth: Callable[[], int]) -> None:
        """Measure a queue from now on, whenever the metrics are asked for."""
        self._queues[name] = depth

    def watch_log(self, dropped: Callable[[], int]) -> None:
        """Measure from now on how many lines of the log were dropped."""
        self._log_lines_dropped = dropped

    @property
    def renderings(self) -> dict[str, Callable[[], bytes]]:
        """Return what renders the metrics, by media type; the first one is Prometheus's oldest."""
        return {
            CONTENT_TYPE_PLAIN_0_0_4: partial(generate_latest, self._registry),
            openmetrics.CONTENT_TYPE_LATEST: partial(openmetrics.generate_latest, self._registry),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield each metric, as the registry asks for them."""
        counts = self._all_counts()
        requests = HistogramMetricFamily(
            "http_server_request_duration_seconds",
            "Time from the head of a request to its answer.",
            labels=["http_route", "http_request_method", "http_response_status_code"],
        )
        for (route, method, status), distribution in counts.requests.items():
            _fill(requests, REQUEST_SECONDS, distribution, route, method, str(status))
        yield requests
        batches = HistogramMetricFamily(
            "plantstore_batch_changes", "Changes in one call of the store."
        )
        _fill(batches, BATCH_CHANGES, counts.batches)
        yield batches
        commits = HistogramMetricFamily(
            "plantstore_commit_duration_seconds", "Time that the store took for one batch."
        )
        _fill(commits, COMMIT_SECONDS, counts.commits)
        yield commits
        changes = CounterMetricFamily(
            "plantstore_changes", "Changes that were decided, durably.", labels=["outcome"]
        )
        refused = CounterMetricFamily(
            "plantstore_refused", "Error records that were sent.", labels=["reason"]
        )
        waiting = GaugeMetricFamily(
            "plantstore_queue_waiting", "Requests that wait for the store.", labels=["queue"]
        )
        for metric, values in (
            (changes, counts.changes),
            (refused, counts.refused),
            (waiting, counts.waiting),
        ):
            for name, value in values.items():
                metric.add_metric([name], value)
            yield metric
        yield CounterMetricFamily(
            "plantstore_log_lines_dropped",
            "Lines of the log that could not be written.",
            value=counts.log_lines_dropped,
        )
        yield GaugeMetricFamily(
            "plantstore_last_commit_timestamp_seconds",
            "When the last commit was confirmed, in seconds since 1970; 0 for none.",
            value=counts.committed_at,
        )
        standbys = GaugeMetricFamily(
            "plantstore_synchronous_standbys",
            "Synchronous standbys for which a commit waits, by server and its timeline.",
            labels=["server", "timeline"],
        )
        for labels, many in counts.standbys.items():
            standbys.add_metric(labels, many)
        yield standbys
        build = {"version": __version__, "python": platform.python_version()}
        yield InfoMetricFamily("plantstore_build", "What is running.", build)

    def _own_counts(self) -> Counts:
        """Return a copy, with the queues as they are now."""
        ours = self._counts
        copy = Counts(
            waiting={name: depth() for name, depth in self._queues.items()},
            log_lines_dropped=self._log_lines_dropped(),
            standbys=dict(ours.standbys),
            committed_at=ours.committed_at,
        )
        # list() takes them in one step, whatever another thread adds meanwhile.
        for series, distribution in list(ours.requests.items()):
            copy.requests[series] = none_yet(REQUEST_SECONDS)
            copy.requests[series].merge(distribution)
        copy.merge(Counts({}, ours.batches, ours.commits, dict(ours.changes), dict(ours.refused)))
        return copy

    def _all_counts(self) -> Counts:
        if self._folder is None:
            return self._own_counts()
        # What is told here, another that is asked next tells too, or counters would go back.
        counts = self._leave()
        for file in self._folder.glob("*[0-9]"):
            if file == self._file:
                continue
            others = msgspec.msgpack.decode(file.read_bytes(), type=Counts)
            if not _is_alive(int(file.name.partition("-")[0])):
                others.waiting = {}
                others.standbys = {}
            counts.merge(others)
        return counts

    def _leave(self) -> Counts:
        """Leave what was counted for the other workers, and return it."""
        draft = self._file.with_name(f"{self._file.name}.draft")
        with self._file_lock:
            counts = self._own_counts()
            # The service goes on without: the folder may be gone with the parent, or full.
            with contextlib.suppress(OSError):
                draft.write_bytes(msgspec.msgpack.encode(counts))
                draft.replace(self._file)
        return counts

    def _share(self) -> None:
        while True:
            time.sleep(SHARE_SECONDS)
            self._leave()


def _fill(
    metric: HistogramMetricFamily,
    bounds: Sequence[float],
    distribution: Distribution,
    *labels: str,
) -> None:
    """Add what lies up to each bound, and in all."""
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*bounds, float("inf")], distribution.counts, strict=True):
        total += count
        buckets.append(("+Inf" if math.isinf(bound) else str(bound), total))
    metric.add_metric(list(labels), buckets, distribution.sum)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
