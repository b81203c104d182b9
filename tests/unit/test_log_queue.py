"""The queue of log lines, with files that accept the lines and files that do not."""

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.telemetry import log as log_module
from plantstore.telemetry.log import QUEUE_LINES_MAX, LogQueue
from support.postgres import wait_until

# More than fits into a pipe, so a write waits for a reader.
LONG = f"{'x' * 200_000}\n"


@contextlib.contextmanager
def log_to(descriptor: int) -> Iterator[LogQueue]:
    log = LogQueue(descriptor, lambda lines: f"{lines} dropped\n")
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


def test_lines_are_written_in_order_and_drain_waits_for_the_queued_lines() -> None:
    reader, writer = os.pipe()
    with log_to(writer) as log:
        for number in range(1000):
            log.write(f"{number}\n")

    assert read_all(reader) == "".join(f"{number}\n" for number in range(1000))
    assert log.dropped == 0


def test_without_a_reader_the_queue_is_bounded_and_dropped_lines_are_reported_later() -> None:
    reader, writer = os.pipe()
    with ThreadPoolExecutor() as threads, log_to(writer) as log:
        log.write(LONG)
        taken = drop_some(log, "a\n")
        reading = threads.submit(read_all, reader)
    said = reading.result()

    assert log.dropped == 10
    # The thread may have taken the first line, or not.
    assert taken in (QUEUE_LINES_MAX - 1, QUEUE_LINES_MAX)
    assert said.replace(LONG, "", 1).replace("10 dropped\n", "", 1) == taken * "a\n"
    assert "10 dropped" in said.splitlines()


@pytest.mark.parametrize("lines", [1, 2 * QUEUE_LINES_MAX])
def test_drain_does_not_wait_forever_for_a_reader(
    monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(log_module, "FLUSH_SECONDS", 0.1)
    reader, writer = os.pipe()
    with log_to(writer) as log:
        for _ in range(lines):
            log.write(LONG)

        log.drain()

        assert log.dropped < lines
        os.close(reader)
        wait_until(lambda: log.dropped == lines)


def test_lines_dropped_on_a_full_disk_are_reported_once_there_is_space_again(
    tmp_path: Path,
) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with log_to(descriptor) as log:
        for number in range(1, 4):
            log.write("lost\n")
            wait_until(lambda number=number: log.dropped == number)  # type: ignore[misc]
        with (tmp_path / "log").open("wb") as file:
            os.dup2(file.fileno(), descriptor)
        log.write("kept\n")

    assert (tmp_path / "log").read_text(encoding="ascii") == "kept\n3 dropped\n"


def test_a_truncated_line_is_not_joined_with_the_next_line(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with log_to(writer) as log:
        log.write(LONG)
        os.read(reader, 1)
        os.close(reader)
        wait_until(lambda: log.dropped == 1)
        with (tmp_path / "log").open("wb") as file:
            os.dup2(file.fileno(), writer)
        log.write("whole\n")

    assert (tmp_path / "log").read_text(encoding="ascii") == "\nwhole\n1 dropped\n"


def test_a_write_to_a_non_blocking_file_waits_until_it_is_complete() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with ThreadPoolExecutor() as threads, log_to(writer) as log:
        log.write(LONG)
        reading = threads.submit(read_all, reader)

    assert reading.result() == LONG
    assert log.dropped == 0
