"""Files of plants, and a client that sends and receives them over HTTP on one connection."""

import csv
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from harness import Server
from measurements import Transfer

CSV = "/plants.csv"
NDJSON = "/plants.ndjson"

BLOCK_BYTES = 256 * 1024
BLOCK_PLANTS = 1_000
LINE = b'{"id":%d,"name":"Abies balsamea (L.) Mill. %d","tag":"Abies"}\n'


def as_json_lines(file: Path, into: Path) -> None:
    """Write the plants of a CSV file as JSON lines."""
    with (
        file.open(encoding="utf-8", newline="") as rows,
        into.open("w", encoding="utf-8", newline="") as written,
    ):
        for row in csv.DictReader(rows):
            plant = {"id": int(row["id"]), "name": row["name"]}
            plant |= {"tag": row["tag"]} if row["tag"] else {}
            written.write(json.dumps(plant, ensure_ascii=False, separators=(",", ":")) + "\n")


def lines(is_over: Callable[[int], bool]) -> Iterator[bytes]:
    """Yield plants as JSON lines, until enough bytes were made."""
    first_id, made = 1, 0
    while not is_over(made):
        block = b"".join([LINE % (id_, id_) for id_ in range(first_id, first_id + BLOCK_PLANTS)])
        first_id += BLOCK_PLANTS
        made += len(block)
        yield block


def send_file(server: Server, file: Path, path: str) -> Transfer:
    """Send a file, whose length the service is told."""
    with file.open("rb") as body:
        return send(server, body, path, {"Content-Length": str(file.stat().st_size)})


def send(
    server: Server, body: Iterable[bytes], path: str = NDJSON, fields: dict[str, str] | None = None
) -> Transfer:
    """Send plants: in chunks, unless the fields have a length.

    Raises:
        RuntimeError: not every plant was stored.

    """
    fields = {"Authorization": f"Bearer {server.token}"} | (fields or {})
    cpu_seconds = server.cpu_seconds()
    began = time.perf_counter()
    connection = _connect(server)
    connection.request("POST", path, body, fields)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    seconds = time.perf_counter() - began
    counts = json.loads(said)
    stored = counts.pop("stored", 0)
    if answer.status != http.client.OK or any(counts.values()):
        raise RuntimeError(f"a stream was answered with {answer.status}: {said[:1000]!r}")
    return Transfer(stored, seconds, server.cpu_seconds() - cpu_seconds)


def receive(server: Server, path: str, expected: int) -> Transfer:
    """Receive all plants, and count them.

    Raises:
        RuntimeError: the response is an error, or has another number of plants.

    """
    fields = {"Authorization": f"Bearer {server.token}"}
    line_ends = 0
    cpu_seconds = server.cpu_seconds()
    began = time.perf_counter()
    connection = _connect(server)
    connection.request("GET", path, headers=fields)
    answer = connection.getresponse()
    while block := answer.read1(BLOCK_BYTES):
        line_ends += block.count(b"\n")
    connection.close()
    seconds = time.perf_counter() - began
    if line_ends - (path == CSV) != expected:
        raise RuntimeError(f"an export had {line_ends:,} lines, with the status {answer.status}")
    return Transfer(expected, seconds, server.cpu_seconds() - cpu_seconds)


class Stream:
    """A stream of plants that another thread sends while the block runs."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send)
        self._sent: Transfer | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    @property
    def sent(self) -> Transfer:
        """What was sent; it is known after the block.

        Raises:
            RuntimeError: the stream failed.

        """
        if self._sent is None:
            raise RuntimeError("the stream failed")
        return self._sent

    def _send(self) -> None:
        self._sent = send(self._server, lines(lambda _made: self._is_over.is_set()))


def _connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", server.port, timeout=600, blocksize=BLOCK_BYTES)
