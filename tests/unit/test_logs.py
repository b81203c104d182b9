"""The log: its lines, their queue, and the ids of requests."""

import contextlib
import itertools
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from plantstore.changes import Outcome
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.messages import Request, request_id
from plantstore.observe import (
    CommitFailed,
    Committed,
    ExportCutOff,
    Observer,
    ReadFailed,
    ReadinessChanged,
    RequestFailed,
    RequestRefused,
    Responded,
    Stopping,
    WorkerFailed,
)
from plantstore.telemetry.log import (
    QUEUE_LINES_MAX,
    SHOWN_CHARACTERS_MAX,
    LogQueue,
    log_events,
    log_responses,
)
from support.postgres import wait_until

# The first failure of a kind is logged at once, and its repetitions are counted.

AWAY = StoreUnavailableError("The database cannot be reached", "connection refused")
GONE = StoreUnavailableError("The database cannot be reached", "no such host")
TRACE = "0af7651916cd43dd8448eb211c80319c"
POST = Request(
    "POST",
    "/plants",
    client=("10.0.0.1", 1),
    scheme="https",
    raw_path="/plants",
    route="/plants",
)
GET = Request(
    "GET",
    "/\x1b",
    fields={"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
    raw_path="/%1B",
)


class Log:
    """The lines that an observer writes. The test sets its clock."""

    def __init__(self, told: list[Any]) -> None:
        self.told: list[dict[str, Any]] = told
        self.now = 0.0
        self.observe: Observer = log_events(lambda: self.now)

    @property
    def lines(self) -> list[tuple[Any, ...]]:
        return [(line["event"], line.get("reason"), line.get("more")) for line in self.told]


@pytest.fixture
def log() -> Iterator[Log]:
    with capture_logs() as told:
        yield Log(told)


def test_repetitions_of_a_logged_failure_are_counted(log: Log) -> None:
    for _ in range(3):
        log.observe(CommitFailed(AWAY, 2))
    log.observe(ReadFailed(AWAY, 1))
    log.observe(CommitFailed(GONE, 2))
    log.observe(ExportCutOff(RequestError(ErrorCode.TOKEN_INVALID, "The token is revoked")))
    for log.now in (1.0, 1.9, 2.0, 3.0):
        log.observe(CommitFailed(AWAY, 5))

    assert log.lines == [
        ("commit failed", AWAY.explanation, None),
        ("read failed", AWAY.explanation, None),
        ("commit failed", GONE.explanation, None),
        ("export cut off", "The token is revoked", None),
        ("commit failed", AWAY.explanation, 2),
        ("commit failed", AWAY.explanation, 1),
        ("commit failed", AWAY.explanation, None),
    ]
    levels = {line["event"]: line["log_level"] for line in log.told}
    assert levels["export cut off"] == "warning"


def test_the_kinds_of_failures_that_are_remembered_are_bounded(log: Log) -> None:
    kinds = [StoreUnavailableError("It failed", f"{number}") for number in range(2_000)]

    for error in (*kinds, kinds[0]):
        log.observe(CommitFailed(error, 1))

    assert len(log.lines) == len(kinds) + 1


def test_refusals_for_overload_or_an_invalid_token_are_counted_by_reason(log: Log) -> None:
    for code in (ErrorCode.OVERLOADED, ErrorCode.TOKEN_INVALID, ErrorCode.INVALID_PLANT):
        for _ in range(10_000):
            log.observe(RequestRefused(code))
    log.now = 1.0
    for code in (ErrorCode.OVERLOADED, ErrorCode.TOKEN_INVALID):
        log.observe(RequestRefused(code))

    assert log.lines == [
        ("refused", "overloaded", None),
        ("refused", "token_invalid", None),
        ("refused", "overloaded", 9_999),
        ("refused", "token_invalid", 9_999),
    ]


def test_a_refusal_is_logged_with_the_address_of_its_client_if_it_is_known(log: Log) -> None:
    log.observe(RequestRefused(ErrorCode.TOKEN_INVALID, ("x" * 2000, 1)))
    log.observe(RequestRefused(ErrorCode.OVERLOADED))

    assert [line.get("client") for line in log.told] == ["x" * 1024 + "...", None]
    assert "client" not in log.told[1]


def test_an_unexpected_error_is_logged_with_its_traceback_once_for_each_type(log: Log) -> None:
    for error in (ZeroDivisionError(), KeyError(), ZeroDivisionError()):
        log.observe(CommitFailed(error, 1))
    log.now = 1.0
    log.observe(CommitFailed(ZeroDivisionError(), 1))

    assert [line["event"] for line in log.told] == ["commit failed"] * 3
    assert [line.get("more") for line in log.told] == [None, None, 1]
    assert all("exc_info" in line for line in log.told)


def test_changes_of_readiness_a_lost_worker_and_the_stop_are_logged(log: Log) -> None:
    killed = WorkerFailed(7, "signal 9 (Killed)")
    for event in (ReadinessChanged(AWAY), ReadinessChanged(None), killed, Stopping()):
        log.observe(event)
    log.observe(Committed([Outcome.STORED], 0.1))

    events = ["not ready", "ready again", "worker failed", "stopping"]
    assert [line[0] for line in log.lines] == events
    assert (log.told[2]["worker"], log.told[2]["reason"]) == (7, killed.reason)


def test_the_access_log_has_a_line_for_each_response(log: Log) -> None:
    observe = log_responses()

    observe(Responded(POST, 200, 0.00123456))
    observe(Responded(GET, 404, 1.0))

    keys = ("event", "method", "path", "status", "seconds", "client", "scheme", "request_id")
    assert [tuple(line.get(key) for key in keys) for line in log.told] == [
        ("request", "POST", "/plants", 200, 0.001235, "10.0.0.1", "https", None),
        ("request", "GET", "/%1B", 404, 1.0, None, "http", TRACE),
    ]


LONG = "x" * SHOWN_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/%41bc", "/%41bc"), ("/\n", "/\ufffd"), ("/" + LONG, "/" + LONG[1:] + "...")],
)
def test_a_logged_path_or_address_is_one_line_of_limited_length(
    log: Log, path: str, shown: str
) -> None:
    request = Request("GET", "", raw_path=path, client=(path, 0))
    log_responses()(Responded(request, 404, 1.0))
    log.observe(RequestFailed(ZeroDivisionError(), "GET", path, TRACE))

    assert [line["path"] for line in log.told] == [shown, shown]
    assert log.told[0]["client"] == shown


# The queue of lines, with files that accept them and files that do not.

# More than fits into a pipe, so a write waits for a reader.
LONG_LINE = f"{'x' * 200_000}\n"


@contextlib.contextmanager
def log_to(descriptor: int) -> Iterator[LogQueue]:
    log = LogQueue(descriptor)
    try:
        yield log
        log.drain()
    finally:
        os.close(descriptor)


def read_all(descriptor: int) -> str:
    with open(descriptor, encoding="ascii") as file:
        return file.read()


def drop_some(log: LogQueue, line: str) -> int:
    """Write lines until ten are dropped; return how many were accepted."""
    taken = 0
    while not log.dropped:
        taken += 1
        log.write(line)
    for _ in range(9):
        log.write(line)
    return taken - 1


def test_without_a_reader_lines_over_the_bound_of_the_queue_are_dropped() -> None:
    reader, writer = os.pipe()
    with ThreadPoolExecutor() as threads, log_to(writer) as log:
        log.write(LONG_LINE)
        select.select([reader], [], [])  # the thread has taken the line
        taken = drop_some(log, "a\n")
        reading = threads.submit(read_all, reader)
    said = reading.result()

    assert log.dropped == 10
    assert taken == QUEUE_LINES_MAX
    assert said == LONG_LINE + taken * "a\n"


def interrupting(step: int, handle: Callable[[], object]) -> Callable[..., Any]:
    """Return a function for `sys.settrace` that calls another one at one of the events."""
    steps = itertools.count()

    def trace(_frame: object, _event: str, _argument: object) -> Any:
        if next(steps) == step:
            sys.settrace(None)
            handle()
        return trace

    return trace


def test_a_handler_of_signals_that_interrupts_a_write_anywhere_can_drain_the_queue() -> None:
    reader, writer = os.pipe()

    with log_to(writer) as log, os.fdopen(reader, encoding="ascii") as file:

        def drain() -> None:
            draining = threading.Thread(target=log.drain, args=[60], daemon=True)
            draining.start()
            draining.join(10)
            assert not draining.is_alive()

        for step in range(50):
            sys.settrace(interrupting(step, drain))
            log.write("a\n")
            sys.settrace(None)
            assert file.readline() == "a\n"


@pytest.mark.parametrize("lines", [1, 2 * QUEUE_LINES_MAX])
def test_drain_does_not_wait_forever_for_a_reader(lines: int) -> None:
    reader, writer = os.pipe()
    with log_to(writer) as log:
        for _ in range(lines):
            log.write(LONG_LINE)

        log.drain(0.1)

        assert log.dropped < lines
        os.close(reader)
        wait_until(lambda: log.dropped == lines)


def test_lines_are_dropped_only_while_the_disk_is_full(tmp_path: Path) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with log_to(descriptor) as log:
        log.write("lost\n")
        wait_until(lambda: log.dropped == 1)
        with (tmp_path / "log").open("wb") as file:
            os.dup2(file.fileno(), descriptor)
        log.write("kept\n")

    assert (tmp_path / "log").read_text(encoding="ascii") == "kept\n"


# The id of a request: `X-Request-Id`, or `traceparent` by W3C Trace Context.

PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
CONTINUED = {"traceparent": TRACEPARENT}


@pytest.mark.parametrize(
    "id_",
    [
        *("d9b2d63d-a233-4123-847a-7090dc9e0f3b", "1f" * 16, "7F000001:8314_7F000001:1F90_65B2+0"),
        "a/b=~.:@-" + "x" * 119,
    ],
)
def test_the_id_of_a_request_is_its_x_request_id(id_: str) -> None:
    assert request_id(CONTINUED | {"x-request-id": id_}) == id_


@pytest.mark.parametrize(
    "given", ["", "a b", "a\x1bb", '"a"', "\xe9", "x" * 129, "a\n", "a,a", "a,b"]
)
@pytest.mark.parametrize("form", ["00-{}-{}-01", "00-{}-{}-00", "01-{}-{}-01-what-comes"])
def test_without_a_valid_x_request_id_it_is_the_trace_id(form: str, given: str) -> None:
    """Two fields are one with a comma (`test_http11.py`)."""
    fields = {"x-request-id": given, "traceparent": form.format(TRACE, PARENT)}

    assert request_id(fields) == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        *("", TRACE, "\xff", "\u0660" * 55, f"{TRACEPARENT},{TRACEPARENT}"),
        *(f"00-{id_}-{PARENT}-01" for id_ in (TRACE.upper(), "0" * 32)),
        f"00-{TRACE}-{'0' * 16}-01",
        *(f"00-{TRACE}-{PARENT}{end}" for end in ("", "-01-more", "-01\n", "-0g")),
        *(f"{version}-{TRACE}-{PARENT}-01{end}" for version, end in (("ff", ""), ("01", "more"))),
    ],
)
def test_without_a_valid_id_it_is_a_new_one(traceparent: str) -> None:
    id_ = request_id({"traceparent": traceparent})

    assert re.fullmatch("[0-9a-f]{32}", id_)
    assert id_ not in (TRACE, TRACE.upper(), request_id({}))
