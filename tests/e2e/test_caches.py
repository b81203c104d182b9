"""Every response of every operation forbids caching, whichever part of the service sends it."""

import contextlib
import json
from pathlib import Path

import pytest

from plantstore.web import read_document
from support.service import Answer, Client, Service
from support.wire import Wire

DOCUMENT = json.loads(read_document())
OPERATIONS = [
    (method.upper(), path.replace("{id}", "1"))
    for path, item in DOCUMENT["paths"].items()
    for method in item.keys() - {"parameters", "summary", "description"}
]
PLANT = '{"id":1,"name":"a"}'


def answers_of_operations(client: Client) -> list[Answer]:
    """Send each operation with a valid request, with bad parameters, and with bad bodies."""
    answers = [client.send("POST", "/plants", PLANT)]
    for method, path in sorted(OPERATIONS, reverse=True):  # DELETE comes last
        answers += [
            client.send(method, f"{path}?limit=0"),
            client.send(method, path, "{}"),
            client.send(method, path, PLANT, {"Content-Type": "text/plain"}),
            client.send(method, path, " " * 65_537),
            client.send(method, f"{path}/none"),
            client.send("PATCH", path),
        ]
    return answers


def test_every_response_of_every_operation_forbids_caching(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        answers = []
        other = service.token("metrics:read", name="other")
        for token in (service.token(), other, "plst_bad", None):
            client = service.client(token)
            answers += answers_of_operations(client)
            client.close()

    assert {answer.status for answer in answers} >= {
        *(200, 204, 400, 401, 403, 404, 405, 413, 415),
    }
    assert {answer.headers.get("cache-control") for answer in answers} == {"no-store"}


@pytest.mark.parametrize(
    ("options", "data", "status"),
    [
        ([], b"GARBAGE\r\n\r\n", 400),
        ([], b"POST /plants HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n", 501),
        ([], b"GET /plants HTTP/1.1\r\nHost: x\r\nX: %b\r\n\r\n" % (b"x" * 40_000), 431),
        (["--request-seconds", "0.2"], b"POST /plants HTTP/1.1\r\nHost: x\r\n", 408),
    ],
)
def test_refusals_before_routing_forbid_caching(
    tmp_path: Path, options: list[str], data: bytes, status: int
) -> None:
    with Service(tmp_path, *options) as service, contextlib.closing(Wire(service.port)) as wire:
        wire.send(data)

        answered, headers, _ = wire.answer()

    assert answered == status
    assert headers[b"cache-control"] == b"no-store"


def test_refusals_by_connection_and_rate_limits_forbid_caching(tmp_path: Path) -> None:
    limits = ["--connections-max", "1", "--rate-per-token", "1/hour"]
    with Service(tmp_path, *limits) as service:
        client = service.client(service.token())
        answers = [client.send("GET", "/plants") for _ in range(2)]
        with contextlib.closing(Wire(service.port)) as wire:
            status, headers, _ = wire.answer()
        client.close()

    assert [answer.status for answer in answers] == [200, 429]
    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
    assert (status, headers[b"cache-control"]) == (503, b"no-store")
