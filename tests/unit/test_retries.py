"""How long the remote commands repeat what is interrupted, with a clock that the test sets."""

import pytest

from plantstore.cli.retries import RETRY_SECONDS_MAX, InterruptedRequestError, with_retries
from plantstore.errors import OperationError

MESSAGE = "the garden failed for 120 seconds, now with: it rains"


class Clock:
    """A clock that only sleeping and working move. Sleeping for an hour in total is an error."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        assert self.now < 5000, "the command does not give up"


class Work:
    """Work that takes some seconds, and is interrupted so many times before it succeeds."""

    def __init__(self, clock: Clock, seconds: float, failures: float, pause: float = 0) -> None:
        self.clock = clock
        self.seconds = seconds
        self.failures = failures
        self.pause = pause
        self.begun = 0

    def run(self) -> str:
        self.begun += 1
        self.clock.now += self.seconds
        if self.begun <= self.failures:
            raise InterruptedRequestError("it rains", self.pause)
        return "done"

    def with_retries(self) -> str:
        clock = self.clock
        return with_retries(self.run, "the garden", monotonic=clock.monotonic, sleep=clock.sleep)


def test_pauses_double_up_to_ten_seconds_and_vary() -> None:
    clock = Clock()

    assert Work(clock, 0, 12).with_retries() == "done"

    assert len(clock.pauses) == 12
    for number, pause in enumerate(clock.pauses):
        longest = min(0.1 * 2**number, 10)
        assert longest / 2 <= pause <= longest


def test_work_that_always_fails_is_given_up_two_minutes_after_its_first_failure() -> None:
    clock = Clock()

    with pytest.raises(OperationError) as given_up:
        Work(clock, 0, 10**9).with_retries()

    assert given_up.value.message == MESSAGE
    assert 1000 + RETRY_SECONDS_MAX - 10 < clock.now <= 1000 + RETRY_SECONDS_MAX


def test_work_that_takes_long_is_not_started_over_two_minutes_after_its_first_failure() -> None:
    clock = Clock()
    work = Work(clock, 50, 10**9)

    with pytest.raises(OperationError):
        work.with_retries()

    assert work.begun == 4  # it fails after 50, 100, 150 and 200 seconds


def test_work_that_takes_longer_than_two_minutes_is_started_over_when_it_fails() -> None:
    clock = Clock()

    assert Work(clock, 500, 1).with_retries() == "done"


def test_the_service_chooses_a_pause_of_up_to_two_minutes() -> None:
    short, long = Clock(), Clock()

    assert Work(short, 0, 2, pause=30).with_retries() == "done"
    with pytest.raises(OperationError) as given_up:
        Work(long, 0, 2, pause=RETRY_SECONDS_MAX + 1).with_retries()

    assert short.pauses == [30, 30]
    assert long.pauses == []
    assert given_up.value.message == MESSAGE
