"""The metrics, as the parser of Prometheus's own client reads them."""

import contextlib
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from plantstore import __version__
from plantstore.changes import Outcome, PlantOutcome, Result
from plantstore.errors import ErrorCode
from plantstore.messages import Request
from plantstore.observe import Committed, Imported, RequestRefused, Responded, Started
from plantstore.plants import NewPlant
from plantstore.telemetry.metrics import Metrics

LABELS = {
    "http_route": "/plants",
    "http_request_method": "POST",
    "http_response_status_code": "200",
}
REQUESTS = "http_server_request_duration_seconds"
CHANGES = "plantstore_changes_total"
IMPORTED = "plantstore_imported_rows_total"
REFUSED = "plantstore_refused_total"
WAITING = "plantstore_queue_waiting"
STARTED = "process_start_time_seconds"
OPEN = "process_open_fds"
TOOK = "process_cpu_seconds_total"


def answered(metrics: Metrics, seconds: float, method: str = "POST") -> None:
    metrics.observe(Responded(Request(method, "/plants", route="/plants"), 200, seconds))


def samples(metrics: Metrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return read(metrics.render().decode())


def read(text: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics).get((name, frozenset(labels.items())), 0)


def test_request_durations_are_counted_in_the_buckets_of_opentelemetry() -> None:
    metrics = Metrics()
    for seconds in (0.004, 0.005, 0.006, 99):
        answered(metrics, seconds)

    counts = {
        bound: value(metrics, f"{REQUESTS}_bucket", le=bound, **LABELS)
        for bound in ("0.005", "0.01", "10.0", "+Inf")
    }

    assert counts == {"0.005": 2, "0.01": 3, "10.0": 3, "+Inf": 4}
    assert value(metrics, f"{REQUESTS}_count", **LABELS) == 4
    assert value(metrics, f"{REQUESTS}_sum", **LABELS) == pytest.approx(99.015)


def test_all_unknown_methods_share_one_series() -> None:
    metrics = Metrics()
    for number in range(100):
        answered(metrics, 0.1, f"BREW{number}")

    labels = LABELS | {"http_request_method": "_OTHER"}

    assert value(metrics, f"{REQUESTS}_count", **labels) == 100
    assert sum(name == f"{REQUESTS}_count" for name, _ in samples(metrics)) == 1


def test_a_batch_is_counted_by_its_size_its_duration_and_its_outcomes() -> None:
    refused = PlantOutcome(Outcome.PRECONDITION_FAILED, NewPlant(1, "a"))
    outcomes: list[Result] = [Outcome.ID_TAKEN, *[Outcome.STORED] * 3, *[refused] * 2]
    metrics = Metrics()

    metrics.observe(Committed(outcomes, 0.002))

    assert value(metrics, "plantstore_batch_changes_bucket", le="10.0") == 1
    assert value(metrics, "plantstore_batch_changes_bucket", le="5.0") == 0
    assert value(metrics, "plantstore_batch_changes_sum") == 6
    assert value(metrics, "plantstore_commit_duration_seconds_bucket", le="0.0025") == 1
    assert value(metrics, "plantstore_commit_duration_seconds_bucket", le="0.001") == 0
    counts = {outcome: value(metrics, CHANGES, outcome=outcome.value) for outcome in Outcome}
    assert counts == dict.fromkeys(Outcome, 0) | {
        Outcome.STORED: 3,
        Outcome.ID_TAKEN: 1,
        Outcome.PRECONDITION_FAILED: 2,
    }


def test_rows_of_imports_are_counted_by_media_type_and_outcome() -> None:
    metrics = Metrics()
    for _ in range(2):
        metrics.observe(Imported("text/csv", {"stored": 3, "refused": 1}))

    assert value(metrics, IMPORTED, media_type="text/csv", outcome="stored") == 6
    assert value(metrics, IMPORTED, media_type="text/csv", outcome="refused") == 2
    assert value(metrics, IMPORTED, media_type="application/jsonl", outcome="stored") == 0


def test_metrics_show_refusals_queue_lengths_dropped_log_lines_and_versions() -> None:
    metrics = Metrics(log_lines_dropped=lambda: 8)
    metrics.observe(RequestRefused(ErrorCode.OVERLOADED))
    metrics.observe(Started())
    metrics.watch_queue("changes", lambda: 7)

    python = sys.version.split()[0]

    assert value(metrics, REFUSED, reason="overloaded") == 1
    assert value(metrics, WAITING, queue="changes") == 7
    assert value(metrics, "plantstore_log_lines_dropped_total") == 8
    assert value(metrics, "plantstore_build_info", version=__version__, python=python) == 1


def test_every_counter_exists_from_the_start_and_its_labels_are_lower_case_words() -> None:
    before = {
        (name, text): count
        for (name, labels), count in samples(Metrics()).items()
        for _, text in labels
        if name in (CHANGES, REFUSED)
    }

    assert before == {
        **{(CHANGES, outcome.value): 0 for outcome in Outcome},
        **{(REFUSED, code.name.lower()): 0 for code in ErrorCode},
    }
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", word) for _, word in before)


# A worker that counts a commit, and reports its metrics for each line that it reads.
WORKER = """
import sys
from pathlib import Path
from plantstore.observe import Committed
from plantstore.changes import Outcome
from plantstore.telemetry.metrics import Metrics

metrics = Metrics(Path(sys.argv[1]), lambda: 3)
metrics.watch_queue("changes", lambda: 5)
metrics.observe(Committed([Outcome.STORED], 0.001))
for _ in sys.stdin:
    print(metrics.render().decode() + "# EOF", flush=True)
"""


class Worker(contextlib.AbstractContextManager["Worker"]):
    """A process that shares its counts in a folder, until the block ends."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.value(CHANGES)  # it has started

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def value(self, name: str, **labels: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        text = "".join(iter(self.process.stdout.readline, "# EOF\n"))
        return read(text).get((name, frozenset(labels.items())), 0)


def test_metrics_include_the_counts_of_other_workers_even_of_dead_ones(tmp_path: Path) -> None:
    with Worker(tmp_path) as one:
        alone = {name: one.value(name) for name in (STARTED, OPEN)}
        with Worker(tmp_path) as other:
            file = tmp_path / f"{other.process.pid}.counts"
            both = {name: one.value(name) for name in (STARTED, OPEN, TOOK)}
            stored = [worker.value(CHANGES, outcome="stored") for worker in (one, other)]
            waiting = [worker.value(WAITING, queue="changes") for worker in (one, other)]
            commits = one.value("plantstore_commit_duration_seconds_count")
            committed_at = one.value("plantstore_last_commit_timestamp_seconds")
        os.utime(file, (0, 0))
        after = {name: one.value(name) for name in (STARTED, OPEN, TOOK)}

        assert stored == [2, 2]
        assert commits == 2
        assert waiting == [10, 10]
        assert both[STARTED] == after[STARTED] == alone[STARTED]
        assert both[OPEN] > alone[OPEN] == after[OPEN]
        assert after[TOOK] >= both[TOOK]
        assert one.value(CHANGES, outcome="stored") == 2
        assert one.value(WAITING, queue="changes") == 5
        assert one.value("plantstore_log_lines_dropped_total") == 6
        assert committed_at < time.time()


def test_workers_share_their_counts_again_after_their_folder_was_removed(tmp_path: Path) -> None:
    folder = tmp_path / "counts"
    with Worker(folder) as one, Worker(folder) as other:
        folder.rename(tmp_path / "removed")
        one.value(CHANGES)  # it writes its counts

        assert other.value(CHANGES, outcome="stored") == 2
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("is_link", [True, False], ids=["link", "of another user"])
def test_a_link_or_a_folder_of_another_user_in_place_of_the_removed_one_is_not_used(
    tmp_path: Path, *, is_link: bool
) -> None:
    folder = tmp_path
    if is_link:
        folder = tmp_path / "link"
        folder.symlink_to(tmp_path)
    elif os.geteuid() == 0:
        os.chown(tmp_path, 65534, -1)
    else:
        folder = Path("/tmp")  # it belongs to root, and everybody may write to it
    with Worker(folder) as one:
        assert one.value(CHANGES, outcome="stored") == 1
    assert not list(folder.glob(f"{one.process.pid}.*"))
