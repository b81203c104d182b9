"""The queue of log lines, with files that accept the lines and files that do not."""

import contextlib
import os
import select
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.telemetry.log import QUEUE_LINES_MAX, LogQueue
from support.postgres import wait_until

# More than fits into a pipe, so a write waits for a reader.
LONG = f"{'x' * 200_000}\n"


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


def test_drain_waits_until_all_lines_are_written_in_order() -> None:
    reader, writer = os.pipe()
    with log_to(writer) as log:
        for number in range(1000):
            log.write(f"{number}\n")

    assert read_all(reader) == "".join(f"{number}\n" for number in range(1000))
    assert log.dropped == 0


def test_without_a_reader_lines_over_the_bound_of_the_queue_are_dropped() -> None:
    reader, writer = os.pipe()
    with ThreadPoolExecutor() as threads, log_to(writer) as log:
        log.write(LONG)
        select.select([reader], [], [])  # the thread has taken the line
        taken = drop_some(log, "a\n")
        reading = threads.submit(read_all, reader)
    said = reading.result()

    assert log.dropped == 10
    assert taken == QUEUE_LINES_MAX
    assert said == LONG + taken * "a\n"


@pytest.mark.parametrize("lines", [1, 2 * QUEUE_LINES_MAX])
def test_drain_does_not_wait_forever_for_a_reader(lines: int) -> None:
    reader, writer = os.pipe()
    with log_to(writer) as log:
        for _ in range(lines):
            log.write(LONG)

        log.drain(0.1)

        assert log.dropped < lines
        os.close(reader)
        wait_until(lambda: log.dropped == lines)


def test_lines_are_dropped_only_while_the_disk_is_full(
    tmp_path: Path,
) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with log_to(descriptor) as log:
        log.write("lost\n")
        wait_until(lambda: log.dropped == 1)
        with (tmp_path / "log").open("wb") as file:
            os.dup2(file.fileno(), descriptor)
        log.write("kept\n")

    assert (tmp_path / "log").read_text(encoding="ascii") == "kept\n"
