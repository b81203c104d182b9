"""Counts events, and renders the counts as metrics for Prometheus.

Theory of operation
-------------------
Counting must cost a request almost no time. So the observer only adds to plain lists and
dictionaries, and the metrics are made when a client requests them. Only one thread adds to
each list or dictionary: the event loop counts requests and refusals, and the writer's thread
counts batches. Other threads copy a list or dictionary in one step.

With several workers, each worker can report the metrics of all. Every worker writes its counts
to a file once a second. The worker that gets the request adds up all files. The file of a worker
that died remains, so counters never decrease; only the last second of that worker is missing.
"""

import contextlib
import os
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from plantstore.changes import Outcome
from plantstore.commit.imports import RowCounts
from plantstore.errors import ErrorCode
from plantstore.formats import MEDIA_TYPES
from plantstore.observe import Answered, Committed, Event, Imported, RequestRefused, ServerChanged
from plantstore.telemetry.counts import (
    BATCH_CHANGES,
    COMMIT_SECONDS,
    METHODS,
    REQUEST_SECONDS,
    Counts,
    Distribution,
    add,
    count_outcomes,
    none_yet,
)
from plantstore.telemetry.exposition import describe_counts
from plantstore.telemetry.processes import describe_processes

# Maximum age of the counts of another worker.
SHARE_SECONDS: Final = 1.0


class Metrics(Collector):
    """Counts events, and renders the counts.

    Args:
        folder: where the workers of one service share their counts; None for a single worker.

    """

    def __init__(self, folder: Path | None = None, *, parent_pid: int | None = None) -> None:
        self._parent_pid = os.getppid() if parent_pid is None else parent_pid
        # A counter that exists from the start shows its first increase (Prometheus,
        # "Instrumentation: Avoid missing metrics").
        self._counts = Counts(
            changes={outcome.value: 0 for outcome in Outcome},
            refused={_reason(code): 0 for code in ErrorCode},
            imported=dict.fromkeys(product(MEDIA_TYPES, RowCounts.__struct_fields__), 0),
        )
        self._queues: dict[str, Callable[[], int]] = {}
        self._log_lines_dropped: Callable[[], int] = int
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._folder = folder
        if folder is not None:
            self._file_lock = threading.Lock()
            # The time makes the name unique: the system reuses process ids.
            self._name = f"{os.getpid()}-{time.monotonic_ns()}"
            threading.Thread(
                target=self._share, args=(folder,), name="metrics", daemon=True
            ).start()

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
            add(counts.changes, count_outcomes(event.outcomes))
        elif isinstance(event, ServerChanged):
            counts.standbys = (
                {(event.server, str(event.timeline or "")): event.standbys} if event.server else {}
            )
        elif isinstance(event, RequestRefused):
            add(counts.refused, {_reason(event.code): 1})
        elif isinstance(event, Imported):
            add(
                counts.imported,
                {(event.media_type, outcome): rows for outcome, rows in event.counts.items()},
            )

    def _find(self, series: tuple[str, str, int]) -> Distribution:
        route, method, status = series
        series = (route, method if method in METHODS else "_OTHER", status)
        return self._counts.requests.setdefault(series, none_yet(REQUEST_SECONDS))

    def watch_queue(self, name: str, depth: Callable[[], int]) -> None:
        """Include the length of a queue in the metrics."""
        self._queues[name] = depth

    def watch_log(self, dropped: Callable[[], int]) -> None:
        """Include the number of dropped log lines in the metrics."""
        self._log_lines_dropped = dropped

    @property
    def renderings(self) -> dict[str, Callable[[], bytes]]:
        """Return a function that renders the metrics for each media type, the default one first."""
        return {
            CONTENT_TYPE_PLAIN_0_0_4: partial(generate_latest, self._registry),
            openmetrics.CONTENT_TYPE_LATEST: partial(openmetrics.generate_latest, self._registry),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield each metric; the registry calls this."""
        counts, pids = self._all_counts()
        yield from describe_counts(counts)
        yield from describe_processes(pids, counts.cpu_seconds)

    def _own_counts(self) -> Counts:
        """Return a copy of the counts, with the current lengths of the queues."""
        ours = self._counts
        copy = Counts(
            waiting={name: depth() for name, depth in self._queues.items()},
            log_lines_dropped=self._log_lines_dropped(),
            standbys=dict(ours.standbys),
            committed_at=ours.committed_at,
            cpu_seconds=time.process_time(),
        )
        # list() copies in one step, so another thread may add to the dictionary at any time.
        for series, distribution in list(ours.requests.items()):
            copy.requests[series] = none_yet(REQUEST_SECONDS)
            copy.requests[series].merge(distribution)
        copy.merge(
            Counts(
                batches=ours.batches,
                commits=ours.commits,
                changes=dict(ours.changes),
                refused=dict(ours.refused),
                imported=dict(ours.imported),
            )
        )
        return copy

    def _all_counts(self) -> tuple[Counts, set[int]]:
        """Return the counts of all workers, and the process ids of those that are alive."""
        pids = {os.getpid()}
        if self._folder is None:
            return self._own_counts(), pids
        # Write the counts before reporting them. Otherwise another worker could get the next
        # request and report less, and a counter would decrease.
        counts = self._leave(self._folder)
        with contextlib.suppress(OSError), _opened(self._folder) as folder:
            for file in folder.glob("*[0-9]"):
                if file.name == self._name:
                    continue
                others = msgspec.msgpack.decode(file.read_bytes(), type=Counts)
                pid = int(file.name.partition("-")[0])
                # The id of a worker that ended may belong to another process now.
                if _is_child(pid, self._parent_pid):
                    pids.add(pid)
                else:
                    others.waiting = {}
                    others.standbys = {}
                counts.merge(others)
        return counts, pids

    def _leave(self, folder: Path) -> Counts:
        """Write the counts to the file of this worker, and return them."""
        with self._file_lock:
            counts = self._own_counts()
            # The service works without this file. For example, the disk may be full.
            with contextlib.suppress(OSError), _opened(folder) as opened:
                draft = opened / f"{self._name}.draft"
                draft.write_bytes(msgspec.msgpack.encode(counts))
                draft.replace(opened / self._name)
        return counts

    def _share(self, folder: Path) -> None:
        while True:
            time.sleep(SHARE_SECONDS)
            self._leave(folder)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Path]:
    """Yield a path to a folder of this user. The folder is created if it is missing.

    A cleaner of temporary files may have removed it. Then another user may have created one of the
    same name, with links to files of this user.

    Raises:
        OSError: it is not a folder of this user.

    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder, os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user")
        # The path of the open folder, whatever has its name meanwhile.
        yield Path(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)


def _reason(code: ErrorCode) -> str:
    """Return the name of an error, as it is in the log and the documentation."""
    return code.name.lower()


def _is_child(pid: int, parent_pid: int) -> bool:
    """Tell whether a process is alive, and is a child of another one."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name of the program is in parentheses, and may contain anything (proc_pid_stat(5)).
    state, parent = status.rpartition(b")")[2].split()[:2]
    return state != b"Z" and int(parent) == parent_pid
