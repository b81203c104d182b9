"""Converts the counts to metrics for Prometheus."""

import math
import platform
from collections.abc import Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)

from plantstore import __version__
from plantstore.telemetry.counts import (
    BATCH_CHANGES,
    COMMIT_SECONDS,
    REQUEST_SECONDS,
    Counts,
    Distribution,
)


def describe_counts(counts: Counts) -> Iterator[Metric]:
    """Yield each metric of the service."""
    yield from _histograms(counts)
    yield from _totals_and_queues(counts)
    yield _imports(counts)
    yield CounterMetricFamily(
        "plantstore_log_lines_dropped",
        "Lines of the log that could not be written.",
        value=counts.log_lines_dropped,
    )
    yield GaugeMetricFamily(
        "plantstore_last_commit_timestamp_seconds",
        "Time of the last successful commit, in seconds since 1970; 0 if there was none.",
        value=counts.committed_at,
    )
    standbys = GaugeMetricFamily(
        "plantstore_synchronous_standbys",
        "Synchronous standbys that a commit waits for, by primary and its timeline.",
        labels=["server", "timeline"],
    )
    for labels, many in counts.standbys.items():
        standbys.add_metric(labels, many)
    yield standbys
    build = {"version": __version__, "python": platform.python_version()}
    yield InfoMetricFamily("plantstore_build", "Versions of the service and of Python.", build)


def _histograms(counts: Counts) -> Iterator[Metric]:
    requests = HistogramMetricFamily(
        "http_server_request_duration_seconds",
        "Time from the head of a request to its answer.",
        labels=["http_route", "http_request_method", "http_response_status_code"],
    )
    for (route, method, status), distribution in counts.requests.items():
        _fill(requests, REQUEST_SECONDS, distribution, route, method, str(status))
    yield requests
    batches = HistogramMetricFamily("plantstore_batch_changes", "Changes in one transaction.")
    _fill(batches, BATCH_CHANGES, counts.batches)
    yield batches
    commits = HistogramMetricFamily(
        "plantstore_commit_duration_seconds", "Duration of one transaction."
    )
    _fill(commits, COMMIT_SECONDS, counts.commits)
    yield commits


def _totals_and_queues(counts: Counts) -> Iterator[Metric]:
    """Yield the metrics with one label, and one number for each of its values."""
    changes = CounterMetricFamily(
        "plantstore_changes", "Changes in committed transactions.", labels=["outcome"]
    )
    refused = CounterMetricFamily(
        "plantstore_refused", "Errors that clients were sent.", labels=["reason"]
    )
    waiting = GaugeMetricFamily(
        "plantstore_queue_waiting", "Requests that wait for the store.", labels=["queue"]
    )
    for family, values in (
        (changes, counts.changes),
        (refused, counts.refused),
        (waiting, counts.waiting),
    ):
        for label, value in values.items():
            family.add_metric([label], value)
        yield family


def _imports(counts: Counts) -> Metric:
    imported = CounterMetricFamily(
        "plantstore_imported_rows",
        "Rows of imports over HTTP.",
        labels=["media_type", "outcome"],
    )
    for labels, rows in counts.imported.items():
        imported.add_metric(labels, rows)
    return imported


def _fill(
    metric: HistogramMetricFamily,
    bounds: Sequence[float],
    distribution: Distribution,
    *labels: str,
) -> None:
    """Add a distribution. In Prometheus, a bucket counts all values up to its bound."""
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*bounds, math.inf], distribution.counts, strict=True):
        total += count
        buckets.append(("+Inf" if math.isinf(bound) else str(bound), total))
    metric.add_metric(list(labels), buckets, distribution.sum)
