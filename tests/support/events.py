"""A client of a stream of changes (Server-Sent Events)."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, NamedTuple, Self


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
