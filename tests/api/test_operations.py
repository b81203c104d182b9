"""Health checks, metrics, and the reports about requests."""

import asyncio
import re
from typing import Any

import pytest

from plantstore.api.operations import LOOK_SECONDS
from plantstore.commit.writer import FAILURE_SECONDS
from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import LookupFailed, ReadinessChanged, RequestRefused
from support.world import JSON, METRICS, VALID, World, assert_error, run


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(path: str) -> None:
    async def test(world: World) -> None:
        answer = await world.client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["Content-Type"] == "application/json"
        assert (await world.client.head(path)).status_code == 200

    run(test)


def test_all_readiness_checks_within_a_second_share_one_probe() -> None:
    async def test(world: World) -> None:
        await asyncio.gather(*(world.client.get("/readyz") for _ in range(10)))
        await world.client.get("/readyz")

        assert world.store.probes == 1

    run(test)


def test_while_commits_fail_the_service_is_not_ready_even_if_the_probe_succeeds() -> None:
    error = StoreUnavailableError("The database cannot be written: disk full")

    async def test(world: World) -> None:
        assert (await world.client.get("/readyz")).status_code == 200
        world.store.write_failure = error
        await world.post()
        for method in ("GET", "HEAD"):
            assert (await world.client.request(method, "/readyz")).status_code == 503
        answer = await world.client.get("/readyz")
        assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
        assert answer.json()["message"] == "The database cannot be written: disk full"
        world.store.write_failure = None
        await world.post()
        assert (await world.client.get("/readyz")).status_code == 200
        world.store.write_failure = error
        await world.send("DELETE", "/plants/1")
        assert (await world.client.get("/readyz")).status_code == 503
        world.now += FAILURE_SECONDS
        assert (await world.client.get("/readyz")).status_code == 200

    changes = run(test).told(ReadinessChanged)
    assert [change.error for change in changes] == [error, None, error, None]


def test_no_probe_is_made_while_commits_succeed() -> None:
    async def test(world: World) -> None:
        await world.post()
        assert (await world.client.get("/readyz")).status_code == 200
        assert world.store.probes == 0
        world.now += 2 * LOOK_SECONDS
        assert (await world.client.get("/readyz")).status_code == 200
        assert world.store.probes == 1

    run(test)


def test_while_the_store_is_unreachable_the_service_is_alive_but_not_ready() -> None:
    error = StoreUnavailableError(
        "The database cannot be reached", "connection refused by 10.0.0.1"
    )

    async def test(world: World) -> None:
        assert (await world.client.get("/readyz")).status_code == 200
        world.store.read_failure = error
        for _ in range(2):
            world.now += 2 * LOOK_SECONDS
            answer = await world.client.get("/readyz")
            assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["message"] == "The database cannot be reached"
        assert (await world.client.get("/healthz")).status_code == 200
        world.store.read_failure = None
        world.now += 2 * LOOK_SECONDS
        assert (await world.client.get("/readyz")).status_code == 200

    changes = run(test).told(ReadinessChanged)
    assert changes == [ReadinessChanged(error), ReadinessChanged(None)]


def test_a_stopping_service_is_alive_but_not_ready_and_still_serves() -> None:
    async def test(world: World) -> None:
        world.parts.readiness.stop()
        answer = await world.client.get("/readyz")
        assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
        assert answer.json()["message"] == "The service is stopping"
        assert (await world.client.get("/healthz")).status_code == 200
        assert (await world.post()).status_code == 200

    run(test)


def test_metrics_need_a_token_with_the_scope_metrics_read() -> None:
    async def test(world: World) -> None:
        assert_error(await world.client.get("/metrics"), 401, ErrorCode.TOKEN_MISSING)
        token = world.add_token("reader", "plants:read")
        answer = await world.send("GET", "/metrics", token=token)
        assert_error(answer, 403, ErrorCode.SCOPE_MISSING)
        token = world.add_token("prometheus", "metrics:read")
        answer = await world.send("GET", "/metrics", token=token)
        assert (answer.status_code, answer.content) == (200, b"text")
        assert (await world.send("HEAD", "/metrics", token=token)).status_code == 200

    run(test)


# What Prometheus 3 sends.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
OPENMETRICS = [
    PROMETHEUS,
    "application/openmetrics-text",
    "Application/OpenMetrics-Text; Version=1.0.0; Q=1",
    'application/openmetrics-text; version="1.0.0"',
    "application/*",
    "text/plain;q=0.5, application/openmetrics-text;q=0.6",
    "text/plain;q=0, */*;q=0.1",
    "*/*, text/plain;q=0.5",
    # Empty elements of a list are ignored (RFC 9110 §5.6.1.2), and so is a malformed range.
    "application/openmetrics-text,",
    ", ,application/openmetrics-text, ,text/plain;q=0.5",
    "application/openmetrics-text; ;q=0.5;, text/plain;q=0.4",
    "application/openmetrics-text;q=0.5, text/plain;q=2",
    "application/openmetrics-text, garbage",
    'application/openmetrics-text;q=0.5, text/html;a="b,text/plain", text/plain;q=0.4',
    # The most specific range has the weight, wherever it stands.
    "*/*;q=0.9, text/*;q=0.1, application/openmetrics-text;q=0.5",
    "application/openmetrics-text;q=1., text/plain;q=0.999",
]
TEXT = [
    "",
    "*",
    "*/*",
    "text/html, */*;q=0.8",
    "application/openmetrics-text;q=0, */*",
    "application/openmetrics-text;q=0.5, text/*;q=0.6",
    "text/plain;q=0.1, text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.5",
    'application/openmetrics-text;a=";q=1";q=0.5, text/plain;q=0.6',
    "application/openmetrics-text;version=0.0.1, text/plain;version=0.0.4;q=0.5, */*;q=0.1",
    # Neither is acceptable:
    "application/openmetrics-text;version=x",
    "application/openmetrics-text;version=2.0.0",
    "application/json",
    "*/*;q=0",
    # Malformed:
    ",",
    ";",
    '"',
    "application/openmetrics-text;q=2",
    "application/openmetrics-text;q=nan",
    "application/openmetrics-text;q=0.5.5",
    "application/openmetrics-text;q=+1",
    "application/openmetrics-text;q=1e0",
    "application/openmetrics-text;q=\xb9",
    "application/openmetrics-text;q=",
    "application/openmetrics-text;q",
    "*/openmetrics-text",
    'application/openmetrics-text;a="b;q=0.5',
    'application/openmetrics-text;version="1',
    "\xe9/\xff",
    "application/openmetrics-text," * 1000,
    # With backtracking it would take hours.
    "application/openmetrics-text" + ";  " * 600 + "x",
]


@pytest.mark.parametrize(
    ("accept", "expected"),
    [*((each, b"openmetrics") for each in OPENMETRICS), *((each, b"text") for each in TEXT)],
    ids=lambda value: value[:50] if isinstance(value, str) else value.decode(),
)
def test_metrics_have_the_format_that_the_client_prefers_or_else_text(
    accept: str, expected: bytes
) -> None:
    async def test(world: World) -> None:
        bearer = f"Bearer {world.token}".encode()
        headers = {b"Authorization": bearer, b"Accept": accept.encode("latin-1")}
        answer = await world.client.get("/metrics", headers=headers)
        assert (answer.status_code, answer.content) == (200, expected)
        assert METRICS[answer.headers["Content-Type"]]() == expected

    run(test)


def test_each_response_is_reported_with_its_route_and_its_status() -> None:
    statuses: list[int] = []

    async def test(world: World) -> None:
        async def send(method: str, path: str, content: Any = None) -> None:
            statuses.append((await world.send(method, path, content)).status_code)

        await send("POST", "/plants", VALID)
        await send("POST", "/plants", b"{}")
        await send("POST", "/plants", b" " * 65_537)
        for path in ("/plants", "/plants/%31", "/plants/1/2", "/nowhere", "/nowhere/1"):
            await send("GET", path)
        await send("PUT", "/plants/1", VALID)
        await send("DELETE", "/plants/1")
        await send("POST", "/plants/1")
        await send("OPTIONS", "/plants")
        world.store.failure = ZeroDivisionError()
        world.now += 10
        await send("GET", "/plants")
        await send("HEAD", "/readyz")

    answers = run(test).answers

    assert [answer.status for answer in answers] == statuses
    assert statuses == [200, 400, 413, 200, 200, 404, 404, 404, 200, 204, 405, 200, 500, 200]
    assert [answer.route for answer in answers] == [
        *("/plants", "/plants", "/plants", "/plants", "/plants/{id}", "", "", ""),
        *("/plants/{id}", "/plants/{id}", "/plants/{id}", "/plants", "/plants", "/readyz"),
    ]
    assert all(0 < answer.seconds < 60 for answer in answers)


def test_a_5xx_response_has_the_trace_id_of_its_request_or_a_new_id() -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"

    async def test(world: World) -> None:
        world.store.failure = StoreUnavailableError("The database cannot be reached")
        headers = JSON | {"Authorization": f"Bearer {world.token}"}
        ids = [
            (await world.post(headers=headers | {"traceparent": parent})).headers["X-Request-Id"]
            for parent in (f"00-{trace}-{'b' * 16}-01", "00-bad", f"00-{trace}-{'b' * 16}-01")
        ]
        assert ids[0] == ids[2] == trace
        assert re.fullmatch("[0-9a-f]{32}", ids[1])
        assert trace != ids[1]

    run(test)


def test_each_refusal_is_reported_with_its_reason() -> None:
    async def test(world: World) -> None:
        await world.post(b"{}")
        await world.client.get("/nope")
        await world.client.get("/plants")

    assert run(test).told(RequestRefused) == [
        RequestRefused(ErrorCode.INVALID_PLANT),
        RequestRefused(ErrorCode.NOT_FOUND),
        RequestRefused(ErrorCode.TOKEN_MISSING),
    ]


def test_a_failed_token_look_up_is_reported_and_the_request_is_refused() -> None:
    error = StoreUnavailableError("The database cannot be reached", "connection refused")

    async def test(world: World) -> None:
        world.store.failure = error
        answer = await world.post()
        assert answer.json()["message"] == "The database cannot be reached; nothing was done"

    assert LookupFailed(error) in run(test).events
