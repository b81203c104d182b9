"""Clients of a stream of changes (Server-Sent Events): one for tests, and that of `examples`."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from plantstore.plants import NewPlant


class Event(NamedTuple):
    """A change."""

    id: int
    kind: str
    data: dict[str, Any]


def parse(lines: Iterator[bytes]) -> Iterator[Event]:
    """Yield the changes."""
    fields: dict[str, str] = {}
    for line in lines:
        if line == b"\n":
            if fields["event"] != "position":
                yield Event(int(fields["id"]), fields["event"], json.loads(fields["data"]))
            fields = {}
        else:
            name, _, value = line.decode().removesuffix("\n").partition(": ")
            fields[name] = value


class Stream:
    """A stream of changes of a service."""

    def __init__(self, port: int, token: str, after: str = "now", **fields: str) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
        headers |= {name.replace("_", "-"): value for name, value in fields.items()}
        self.connection.request("GET", f"/changes?after={after}", None, headers)
        self.answer = self.connection.getresponse()
        self.events = parse(iter(self.answer.readline, b""))

    def __enter__(self) -> Self:
        assert self.answer.status == 200, self.answer.read()
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()
        self.connection.close()


FOLLOWER = Path(__file__).parents[2] / "examples" / "follow.py"


@contextlib.contextmanager
def following(port: int, token: str, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the example until the block ends, and kill it."""
    command = [sys.executable, str(FOLLOWER), f"http://127.0.0.1:{port}", str(file)]
    env = os.environ | {"PLANTSTORE_TOKEN": token}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def copied(file: Path) -> list[NewPlant]:
    """Return the plants in the file of the example."""
    if not file.exists():
        return []
    _, *lines = file.read_text().split("\n")
    return sorted((NewPlant(**json.loads(line)) for line in lines), key=lambda plant: plant.id)
