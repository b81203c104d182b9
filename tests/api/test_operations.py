"""What holds for each operation of the document; health checks, metrics, and what is reported."""

import itertools
from collections.abc import Awaitable, Callable

import pytest

from plantstore.api.monitoring import LOOK_SECONDS
from plantstore.changes import InSet, entity_tag
from plantstore.commit.writer import FAILURE_SECONDS
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.observe import LookupFailed, ReadinessChanged
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from plantstore.server.interface import Request, Response
from support.document import DOCUMENT, NAMES, OPERATIONS, PATHS, Operation
from support.world import METRICS, VALID, World, assert_error

WITH_TOKEN = [operation for operation in OPERATIONS if operation.needs_token]


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_a_valid_request_gets_a_declared_response(world: World, operation: Operation) -> None:
    world.put_in(NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"))
    request = operation.request()
    undone = request["path"].partition("?set=")[2]
    world.store.apply_changes([InSet(NewPlant(2, "a"), undone or "no-set-0123456789")])
    request["headers"] = {"Authorization": f"Bearer {world.token}"} | request.get("headers", {})

    answer = world.ask(**request)

    declared = operation.content["responses"][f"{answer.status_code}"]
    media_types = [*declared.get("content", ())] if operation.method != "HEAD" else []
    assert answer.is_success
    media_type, _, parameters = answer.headers.get("Content-Type", "").partition("; ")
    assert not media_types or media_type in media_types
    # Without it, some clients read text as Latin-1.
    assert not media_type.startswith("text/") or parameters.endswith("charset=utf-8")
    assert operation.method not in ("HEAD", "OPTIONS") or answer.content == b""


def test_an_operation_is_a_function_of_a_request_and_needs_no_server(world: World) -> None:
    plants, json = world.parts.plants, {"content-type": "application/json"}
    found = {"Content-Type": "application/json", "ETag": entity_tag("a", None)}

    async def call() -> list[Response]:
        put = Request("PUT", "/plants/1", fields=json, body=b'{"name":"a"}')
        return [
            await plants.create(Request("POST", "/plants", fields=json, body=VALID)),
            await plants.put(put),
            await plants.show(Request("GET", "/plants/1")),
            await plants.delete(Request("DELETE", "/plants/1")),
        ]

    assert world.run(call()) == [
        Response(
            *(200, {"Content-Type": "application/json"}),
            b'{"name":"Abies balsamea (L.) Mill.","tag":"Abies"}',
        ),
        Response(200, found, b'{"name":"a"}'),
        Response(200, found, b'{"id":1,"name":"a"}'),
        Response(204),
    ]


def test_an_operation_raises_the_error_that_its_client_gets(world: World) -> None:
    plants = world.parts.plants
    body = b"x" * (PLANT_BYTES_MAX + 1)

    async def code_of(response: Awaitable[Response]) -> ErrorCode:
        with pytest.raises(RequestError) as refused:
            await response
        return refused.value.code

    async def call() -> list[ErrorCode]:
        json = {"content-type": "application/json"}
        requests = [
            plants.show(Request("GET", "/plants/1")),
            plants.show(Request("GET", "/plants/x")),
            plants.list(Request("GET", "/plants", "x=1")),
            plants.create(Request("POST", "/plants", body=VALID)),
            plants.create(Request("POST", "/plants", fields=json, body=body)),
        ]
        return [await code_of(request) for request in requests]

    assert world.run(call()) == [
        *(ErrorCode.NO_SUCH_PLANT, ErrorCode.INVALID_PARAMETER, ErrorCode.INVALID_PARAMETER),
        *(ErrorCode.UNSUPPORTED_MEDIA_TYPE, ErrorCode.BODY_TOO_LARGE),
    ]


def test_options_and_405_list_the_methods_that_the_document_declares(
    new_world: Callable[..., World],
) -> None:
    world = new_world()

    for path in (*PATHS, "/docs"):
        url = path.replace("{id}", "1")
        declared = {each.method for each in OPERATIONS if each.path == path} or {"GET", "HEAD"}
        options = world.ask("OPTIONS", url)
        refused = world.send("TRACE", url)

        assert (options.status_code, options.content) == (200, b"")
        assert options.headers["Content-Length"] == "0"
        assert ("Accept-Patch" in options.headers) is ("PATCH" in declared)
        assert_error(refused, 405, ErrorCode.METHOD_NOT_ALLOWED)
        for answer in (options, refused):
            assert {*answer.headers["Allow"].split(", ")} == declared | {"OPTIONS"}


@pytest.mark.parametrize("operation", WITH_TOKEN, ids=lambda each: f"{each.method} {each.path}")
def test_an_unknown_query_parameter_is_refused_after_the_token(
    world: World, operation: Operation
) -> None:
    request = operation.request()
    request["path"] += "?x=1"
    bearer = {"Authorization": f"Bearer {world.token}"}

    without = world.ask(**request)
    refused = world.ask(**request | {"headers": bearer | request.get("headers", {})})

    assert without.status_code == 401
    assert refused.status_code == (200 if operation.path == "/metrics" else 400)
    assert world.store.plants == {}


@pytest.mark.parametrize(
    "path",
    [
        *("/Plants", "/plants/", "/plants.csv/", "/plants/1/2", "/x" * 1000, "/docs/x"),
        *(f"http://plants.test{path}" for path in ("//plants", "//plants/1", "//healthz", "///")),
    ],
)
def test_an_unknown_path_is_404_with_an_error_record(world: World, path: str) -> None:
    for method in ("GET", "OPTIONS"):
        assert_error(world.send(method, path), 404, ErrorCode.NOT_FOUND)


def test_the_interface_document_is_that_of_the_package(world: World) -> None:
    assert world.ask("GET", "/openapi.json").json() == DOCUMENT


def test_while_the_store_works_readiness_writes_nothing(world: World) -> None:
    answers = [world.ask("GET", path) for path in ["/healthz"] + ["/readyz"] * 10]
    world.post()
    world.now += 100
    answers.append(world.ask("GET", "/readyz"))

    assert [(answer.status_code, answer.json()) for answer in answers] == [
        (200, {"status": "ok"})
    ] * 12
    assert (world.store.calls["probe"], world.store.calls["look"]) == (0, 2)


def test_while_the_store_cannot_be_read_the_service_is_not_ready(world: World) -> None:
    error = StoreUnavailableError("The database cannot be reached")
    world.store.fail(error, "look")

    assert_error(world.ask("GET", "/readyz"), 503, ErrorCode.STORE_UNAVAILABLE, error.message)
    world.store.repair()
    world.now += 2 * LOOK_SECONDS
    assert ready(world) == 200

    assert world.store.calls["probe"] == 0
    assert world.told(ReadinessChanged) == [ReadinessChanged(error), ReadinessChanged(None)]


def ready(world: World, method: str = "GET") -> int:
    return world.ask(method, "/readyz").status_code


def test_while_commits_fail_the_service_is_not_ready_even_if_the_probe_succeeds(
    world: World,
) -> None:
    error = StoreUnavailableError("The database cannot be written: disk full")
    assert ready(world) == 200

    world.store.fail(error, "apply_changes")
    world.post()
    assert [ready(world, method) for method in ("GET", "HEAD")] == [503, 503]
    assert_error(world.ask("GET", "/readyz"), 503, ErrorCode.STORE_UNAVAILABLE, error.message)
    world.store.repair()
    world.post()
    assert ready(world) == 200

    assert world.told(ReadinessChanged) == [ReadinessChanged(error), ReadinessChanged(None)]


def test_after_a_failure_probes_once_a_second_decide_until_one_succeeds(world: World) -> None:
    error = StoreUnavailableError("The database cannot be reached", "refused by 10.0.0.1")
    world.store.fail(error, "apply_changes", "probe")
    world.post()
    world.now += FAILURE_SECONDS

    for probes in (1, 2):
        for _ in range(3):
            answer = world.ask("GET", "/readyz")
            assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["message"] == "The database cannot be reached"
        assert world.store.calls["probe"] == probes
        world.now += 2 * LOOK_SECONDS
    assert world.ask("GET", "/healthz").status_code == 200
    world.store.repair()
    for _ in range(3):
        assert ready(world) == 200
        world.now += 2 * LOOK_SECONDS

    assert world.store.calls["probe"] == 3
    assert world.told(ReadinessChanged) == [ReadinessChanged(error), ReadinessChanged(None)]


def test_a_stopping_service_serves_but_is_not_ready(world: World) -> None:
    world.parts.readiness.stop()

    answer = world.ask("GET", "/readyz")
    assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE, "The service is stopping")
    assert world.ask("GET", "/healthz").status_code == 200
    assert world.post().status_code == 200


# What Prometheus 3 sends.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (PROMETHEUS, b"openmetrics"),
        *((each, b"text") for each in ("text/html, */*;q=0.8", "application/json", "garbage")),
    ],
)
def test_metrics_have_the_format_that_the_client_prefers_or_else_text(
    world: World, accept: str, expected: bytes
) -> None:
    answer = world.get("/metrics", Accept=accept)

    assert (answer.status_code, answer.content) == (200, expected)
    assert METRICS[answer.headers["Content-Type"]]() == expected


def test_metrics_are_rendered_once_a_second_for_all_who_ask() -> None:
    numbers = itertools.count(1)
    renderings = {"text/plain": lambda: b"%d" % next(numbers)}

    with World(metrics=renderings) as world:
        answers = world.send_together(*[("GET", "/metrics"), ("HEAD", "/metrics")] * 3)
        world.now += 1.1
        later = world.get("/metrics")

    assert {answer.content for answer in answers} == {b"1", b""}
    assert later.content == b"2"


def test_each_response_is_reported_with_its_route_and_its_status(world: World) -> None:
    for method, path, content in (
        *(("POST", "/plants", VALID), ("POST", "/plants", b"{}"), ("GET", "/plants/%31", None)),
        *(("POST", "/plants/1", None), ("GET", "/nowhere", None)),
        ("GET", "http://plants.test//plants/1", None),
    ):
        world.send(method, path, content)
    world.get("/plants/1", If_None_Match="*")
    world.store.fail(ZeroDivisionError(), "list_plants")
    world.get("/plants")

    assert [(answer.status, answer.request.route) for answer in world.answers] == [
        *((200, "/plants"), (400, "/plants"), (200, "/plants/{id}")),
        *((405, "/plants/{id}"), (404, ""), (404, ""), (304, "/plants/{id}"), (500, "/plants")),
    ]


def test_a_failed_token_look_up_is_reported(world: World) -> None:
    error = StoreUnavailableError("The database cannot be reached", "why")
    world.store.fail(error, "find_token")

    answer = world.post()
    world.store.repair()

    assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE, "cannot be reached; nothing was done")
    assert answer.headers["Retry-After"] == "1"
    assert LookupFailed(error) in world.told(LookupFailed)
    assert world.post().status_code == 200
