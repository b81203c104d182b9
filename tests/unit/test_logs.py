"""What the log tells of a store that is away."""

import logging

import pytest

from plantstore.errors import StoreUnavailableError
from plantstore.observe import CommitFailed, LookupFailed, ReadinessChanged
from plantstore.telemetry.logs import QUIET_SECONDS, configure_logs, log_events

AWAY = StoreUnavailableError("The database cannot be reached", "connection refused")


def test_a_failure_that_repeats_is_told_once_a_second_and_then_how_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    configure_logs()
    logging.getLogger().addHandler(caplog.handler)
    observe = log_events(lambda: now)

    for _ in range(3):
        observe(CommitFailed(AWAY, 2))
    observe(LookupFailed(AWAY))
    now += QUIET_SECONDS
    observe(CommitFailed(AWAY, 5))
    observe(CommitFailed(ZeroDivisionError(), 1))
    observe(ReadinessChanged(None))

    told = [record.msg for record in caplog.records]
    assert all(isinstance(line, dict) for line in told)
    assert [
        (line["event"], line.get("changes"), line.get("more"), line.get("reason"))
        for line in told
        if isinstance(line, dict)
    ] == [
        ("commit failed", 2, None, "The database cannot be reached: connection refused"),
        ("token look-up failed", None, None, "The database cannot be reached: connection refused"),
        ("commit failed", 5, 2, "The database cannot be reached: connection refused"),
        ("commit failed", 1, None, None),
        ("ready again", None, None, None),
    ]
