"""The limits of `plantstore import --url` and `plantstore export --url`: time and memory."""

import queue
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import run
from support.first_answer import FirstAnswer
from support.flood import peak_mib_of
from support.service import PLANTSTORE
from support.streams import chunk, line

pytestmark = pytest.mark.engines("sqlite")

LARGE_ROWS = 300
LARGE_ROW_BYTES = 200_000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the folder of a user who has a token and a file of plants."""
    (tmp_path / "token").write_text("t", encoding="ascii")
    (tmp_path / "plants.csv").write_text("id,name\n1,a\n", encoding="ascii")
    return tmp_path


@pytest.mark.parametrize("arguments", [("import", "plants.csv"), ("export", "out.jsonl")])
def test_a_command_does_not_wait_for_a_service_that_asks_for_a_pause_of_a_day(
    home: Path, arguments: tuple[str, str]
) -> None:
    head = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 86400\r\nConnection: close\r\n\r\n"
    service = FirstAnswer([head])
    url = f"http://127.0.0.1:{service.port}"

    done = run(home, *arguments, "--url", url, "--token-file", "token")

    service.thread.join(60)
    assert done.returncode == 1
    assert done.stderr.endswith(
        f"{url} failed for 120 seconds, now with: {url} answered 503: Service Unavailable\n"
    )


def test_the_memory_of_an_export_from_a_service_does_not_depend_on_its_size(home: Path) -> None:
    processes: queue.Queue[int] = queue.Queue()
    peaks_mib: list[int] = []
    row = chunk(line(1, "a" * LARGE_ROW_BYTES))

    def answer() -> Iterator[bytes]:
        pid = processes.get(timeout=60)
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        peaks_mib.append(peak_mib_of(pid))
        for _ in range(LARGE_ROWS):
            yield row
        peaks_mib.append(peak_mib_of(pid))
        yield b"0\r\n\r\n"

    service = FirstAnswer(answer())
    url = f"http://127.0.0.1:{service.port}"
    command = [*PLANTSTORE, "export", "out.jsonl", "--url", url, "--token-file", "token"]
    with subprocess.Popen(command, cwd=home, stderr=subprocess.PIPE, text=True) as process:
        processes.put(process.pid)
        _, said = process.communicate(timeout=60)
    service.thread.join(60)

    assert said.splitlines()[-1] == f"Exported {LARGE_ROWS} plants"
    assert (home / "out.jsonl").stat().st_size > LARGE_ROWS * LARGE_ROW_BYTES
    before, after = peaks_mib
    assert after - before < 20
