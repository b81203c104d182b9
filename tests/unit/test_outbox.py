"""The queue of log lines, with files that accept the lines and files that do not."""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.telemetry.outbox import OUTBOX_BYTES_MAX, OUTBOX_LINES_MAX, Outbox
from support.postgres import wait_until

# More than fits into a pipe, so a write waits for a reader.
LONG = f"{'x' * 200_000}\n"


@contextlib.contextmanager
def outbox_of(descriptor: int) -> Iterator[Outbox]:
    outbox = Outbox(descriptor, lambda lines: f"{lines} dropped\n")
    try:
        yield outbox
    finally:
        outbox.close()
        os.close(descriptor)


def read_all(descriptor: int) -> str:
    with open(descriptor, encoding="ascii") as file:
        return file.read()


def drop_some(outbox: Outbox, line: str) -> int:
    """Write lines until ten are dropped; return how many were accepted."""
    taken = 0
    while not outbox.dropped:
        taken += 1
        outbox.write(line)
    for _ in range(9):
        outbox.write(line)
    return taken - 1


def test_lines_are_written_in_order_and_close_writes_the_queued_lines() -> None:
    reader, writer = os.pipe()
    with outbox_of(writer) as outbox:
        for number in range(1000):
            outbox.write(f"{number}\n")

    assert read_all(reader) == "".join(f"{number}\n" for number in range(1000))
    assert outbox.dropped == 0


@pytest.mark.parametrize("line", ["a\n", "a" * 100_000 + "\n"])
def test_without_a_reader_the_queue_is_bounded_and_dropped_lines_are_reported_later(
    line: str,
) -> None:
    reader, writer = os.pipe()
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(read_all(reader)))
    with outbox_of(writer) as outbox:
        outbox.write(LONG)
        taken = drop_some(outbox, line)
        thread.start()
    thread.join()

    assert outbox.dropped == 10
    assert taken <= OUTBOX_LINES_MAX
    assert taken * len(line) <= OUTBOX_BYTES_MAX
    assert said[0].replace(LONG, "", 1).replace("10 dropped\n", "", 1) == taken * line
    assert "10 dropped" in said[0].splitlines()


def test_close_does_not_wait_forever_for_a_reader() -> None:
    reader, writer = os.pipe()
    with outbox_of(os.dup(writer)) as outbox:
        outbox.write(LONG)

    outbox.write("too late\n")

    assert outbox.dropped == 1
    os.close(reader)
    os.close(writer)


def test_lines_dropped_on_a_full_disk_are_reported_once_there_is_space_again(
    tmp_path: Path,
) -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    with outbox_of(descriptor) as outbox:
        for number in range(1, 4):
            outbox.write("lost\n")
            wait_until(lambda number=number: outbox.dropped == number)  # type: ignore[misc]
        with (tmp_path / "log").open("wb") as file:
            os.dup2(file.fileno(), descriptor)
        outbox.write("kept\n")

    assert (tmp_path / "log").read_text(encoding="ascii") == "kept\n3 dropped\n"


def test_a_truncated_line_is_not_joined_with_the_next_line(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with outbox_of(writer) as outbox:
        outbox.write(LONG)
        os.read(reader, 1)
        os.close(reader)
        wait_until(lambda: outbox.dropped == 1)
        with (tmp_path / "log").open("wb") as file:
            os.dup2(file.fileno(), writer)
        outbox.write("whole\n")

    assert (tmp_path / "log").read_text(encoding="ascii") == "\nwhole\n1 dropped\n"


def test_a_write_to_a_non_blocking_file_waits_until_it_is_complete() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(read_all(reader)))
    with outbox_of(writer) as outbox:
        outbox.write(LONG)
        thread.start()
    thread.join()

    assert said == [LONG]
    assert outbox.dropped == 0
