"""`GET /plants.csv` and `GET /plants.ndjson`, against the real server.

Some exports last: their client does not read, the log of SQLite is long, or PostgreSQL hangs.
"""

import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.api.exports import EXPORTS_MAX
from plantstore.changes import Upsert
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.command import call
from support.postgres import SHORT_TIMEOUT, Programs, Server, wait_until
from support.service import Answer, Client, Service, opened, serving
from support.streams import MEDIA_TYPES
from support.wire import Wire, get

CSV = "/plants.csv"
NDJSON = "/plants.ndjson"
MIB = 1024 * 1024

# 8 MB, more than the buffers of a connection hold, so that an export waits for its client.
LARGE = [NewPlant(id_, "x" * 2_000) for id_ in range(4_000)]
RECEIVE_BYTES = 65_536

SMALL = NewPlant(-1, "Abies")

# Parameters of the URL of a database, for short time limits.
SOON = f"?connect_timeout=2&{SHORT_TIMEOUT}"


@contextlib.contextmanager
def begun_exports(service: Service, *tokens: str) -> Iterator[list[Wire]]:
    """Begin exports whose clients read only the status line."""
    with contextlib.ExitStack() as stack:
        wires = []
        for token in tokens:
            wires.append(stack.enter_context(Wire(service.port)))
            wires[-1].socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            wires[-1].send(get(NDJSON, token))
            assert wires[-1].file.readline() == b"HTTP/1.1 200 OK\r\n"
        yield wires


def is_whole(wire: Wire) -> bool:
    """Read the rest of an export; return whether its end arrived."""
    last = b""
    with contextlib.suppress(ConnectionResetError):
        while not last.endswith(b"0\r\n\r\n") and (piece := wire.file.read1(100_000)):
            last = last[-5:] + piece
    return last.endswith(b"0\r\n\r\n")


def export_nothing(client: Client) -> Answer:
    """Export no plant, with a snapshot as any other export."""
    return client.send("GET", f"{CSV}?tag=none")


@pytest.mark.parametrize(("form", "media_type"), MEDIA_TYPES.items())
def test_an_export_has_the_bytes_that_the_command_writes(
    tmp_path: Path, form: str, media_type: str
) -> None:
    with serving(tmp_path) as (service, client):
        service.change(
            NewPlant(-7, 'Rosa "×", damascena\n'),
            *(NewPlant(number, f"Abies {number}", "Abies") for number in range(2_500)),
        )
        head = client.send("HEAD", f"/plants.{form}")
        answer = client.send("GET", f"/plants.{form}", headers={"Accept": "application/json"})
        of_tag = client.send("GET", f"{CSV}?tag=none")
    call(tmp_path, "export", f"expected.{form}")

    assert answer.status == 200
    assert answer.body == (tmp_path / f"expected.{form}").read_bytes()
    assert answer.headers["content-type"].split(";")[0] == media_type
    assert answer.headers["content-disposition"] == f'attachment; filename="plants.{form}"'
    assert answer.headers["cache-control"] == "no-store"
    assert of_tag.body == b"id,name,tag\r\n"
    # A HEAD reads no snapshot, so it has no number of the feed (RFC 9110 §9.3.2).
    varying = {"date": "", "transfer-encoding": "", "changes-after": ""}
    assert head.headers | varying == answer.headers | varying


def test_an_export_needs_http_1_1(service: Service, token: str) -> None:
    with Wire(service.port) as wire:
        wire.send(get(CSV, token).replace(b"HTTP/1.1", b"HTTP/1.0"))

        assert wire.answer()[0] == 400


def test_exports_over_the_limit_are_503_until_their_clients_are_gone(tmp_path: Path) -> None:
    of_first = EXPORTS_MAX * 3 // 4
    refused = []

    # The clients do not read. None of them must be disconnected before all have begun.
    with Service(tmp_path, "--request-seconds", "60") as service:
        service.change(*LARGE)
        first, second, third = (service.token(name=name) for name in "abc")
        with begun_exports(service, *[first] * of_first, *[second] * (EXPORTS_MAX - of_first)):
            for token in (first, third):
                with service.client(token) as client:
                    refused.append(client.send("GET", NDJSON))
        with service.client(third) as client:
            wait_until(lambda: export_nothing(client).status == 200)

    for answer in refused:
        assert (answer.status, answer.json["error"]) == (503, ErrorCode.OVERLOADED)


def test_no_export_begins_while_older_ones_keep_the_log_long(tmp_path: Path) -> None:
    log = tmp_path / "plants.db-wal"
    statuses = []
    with serving(tmp_path, "--request-seconds", "60") as (service, client):
        service.change(*LARGE)
        with begun_exports(service, service.token(name="slow")) as [first]:
            for letter in "abcdefghij":
                statuses.append(export_nothing(client).status)
                service.change(*(Upsert(NewPlant(id_, letter * 15_000)) for id_ in range(560)))
            refused = export_nothing(client)
            page = client.send("GET", "/plants?limit=1")
            first_is_whole = is_whole(first)
        # Another process wrote, and the service gets no change.
        wait_until(lambda: log.stat().st_size < 16 * MIB)
        accepted = export_nothing(client)

    assert statuses[:4] == [200] * 4
    assert (refused.status, refused.json["error"]) == (503, ErrorCode.OVERLOADED)
    assert 1 <= int(refused.headers["retry-after"]) <= 5
    assert (page.status, first_is_whole, accepted.status) == (200, True, 200)


@pytest.mark.engines("postgres")
def test_while_postgresql_hangs_a_stop_cuts_off_exports_and_ends(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    """tests/contract tests a store on a server that hangs, and its recovery."""
    with Server(postgres_programs, "hangs") as server:
        with opened(server.url()) as store:
            store.apply_changes(LARGE)
        with (
            Service(tmp_path, "--stop-seconds", "1", database=server.url() + SOON) as service,
            service.client(service.token(name="client")) as client,
            begun_exports(service, *[service.token()] * 12) as wires,
        ):
            server.signal_all(signal.SIGSTOP)
            refused = client.post(SMALL)
            status = service.stop()
            wholes = [is_whole(wire) for wire in wires]
            server.signal_all(signal.SIGCONT)

    assert (refused.status, status) == (503, 0)
    assert wholes == [False] * 12
    assert not service.has_logged("Traceback")
