"""What holds for each operation of the document; health checks, metrics, and what is reported."""

import itertools

import pytest

from plantstore.api.monitoring import FAILURE_SECONDS, RESULT_SECONDS
from plantstore.changes import InSet
from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import ReadFailed, ReadinessChanged
from plantstore.plants import NewPlant
from support.document import DOCUMENT, NAMES, OPERATIONS, PATHS, Operation
from support.world import VALID, World, assert_error

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


def test_options_and_405_list_the_methods_that_the_document_declares(world: World) -> None:
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
    unchanged: World, operation: Operation
) -> None:
    request = operation.request()
    request["path"] += "?x=1"
    bearer = {"Authorization": f"Bearer {unchanged.token}"}

    without = unchanged.ask(**request)
    refused = unchanged.ask(**request | {"headers": bearer | request.get("headers", {})})

    assert without.status_code == 401
    assert refused.status_code == (200 if operation.path == "/metrics" else 400)
    assert unchanged.store.plants == {}


@pytest.mark.parametrize(
    "path",
    [
        *("/Plants", "/plants/", "/plants.csv/", "/plants/1/2", "/x" * 1000, "/docs/x"),
        *(f"http://plants.test{path}" for path in ("//plants", "//plants/1", "//healthz", "///")),
    ],
)
def test_an_unknown_path_is_404_with_an_error_record(unchanged: World, path: str) -> None:
    for method in ("GET", "OPTIONS"):
        assert_error(unchanged.send(method, path), 404, ErrorCode.NOT_FOUND)


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
    assert (world.store.calls["check_writable"], world.store.calls["check_readable"]) == (0, 2)


def test_while_the_store_cannot_be_read_the_service_is_not_ready(world: World) -> None:
    error = StoreUnavailableError("The database cannot be reached")
    world.store.fail(error, "check_readable")

    assert_error(world.ask("GET", "/readyz"), 503, ErrorCode.STORE_UNAVAILABLE, error.message)
    world.store.repair()
    world.now += 2 * RESULT_SECONDS
    assert ready(world) == 200

    assert world.store.calls["check_writable"] == 0
    assert world.told(ReadinessChanged) == [ReadinessChanged(error), ReadinessChanged(None)]


def ready(world: World, method: str = "GET") -> int:
    return world.ask(method, "/readyz").status_code


def test_while_commits_fail_the_service_is_not_ready_even_if_the_check_succeeds(
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


def test_after_a_failure_checks_once_a_second_decide_until_one_succeeds(world: World) -> None:
    error = StoreUnavailableError("The database cannot be reached", "refused by 10.0.0.1")
    world.store.fail(error, "apply_changes", "check_writable")
    world.post()
    world.now += FAILURE_SECONDS

    for checks in (1, 2):
        for _ in range(3):
            answer = world.ask("GET", "/readyz")
            assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["message"] == "The database cannot be reached"
        assert world.store.calls["check_writable"] == checks
        world.now += 2 * RESULT_SECONDS
    assert world.ask("GET", "/healthz").status_code == 200
    world.store.repair()
    for _ in range(3):
        assert ready(world) == 200
        world.now += 2 * RESULT_SECONDS

    assert world.store.calls["check_writable"] == 3
    assert world.told(ReadinessChanged) == [ReadinessChanged(error), ReadinessChanged(None)]


def test_a_stopping_service_serves_but_is_not_ready(world: World) -> None:
    world.parts.readiness.stop()

    answer = world.ask("GET", "/readyz")
    assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE, "The service is stopping")
    assert world.ask("GET", "/healthz").status_code == 200
    assert world.post().status_code == 200


def test_metrics_have_the_text_format_whatever_the_client_accepts(world: World) -> None:
    for accept in ("application/openmetrics-text;version=1.0.0", "application/json", "garbage"):
        answer = world.get("/metrics", Accept=accept)

        assert (answer.status_code, answer.content) == (200, b"metrics")
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "Vary" not in answer.headers


def test_metrics_are_rendered_once_a_second_for_all_who_ask() -> None:
    numbers = itertools.count(1)

    with World(render_metrics=lambda: b"%d" % next(numbers)) as world:
        answers = world.send_together(*[("GET", "/metrics")] * 3)
        world.now += 1.1
        later = world.get("/metrics")

    assert [answer.content for answer in (*answers, later)] == [b"1"] * 3 + [b"2"]


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


def test_a_failed_token_lookup_is_reported(world: World) -> None:
    error = StoreUnavailableError("The database cannot be reached", "why")
    world.store.fail(error, "find_token")

    answer = world.post()
    world.store.repair()

    assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE, "cannot be reached; nothing was done")
    assert answer.headers["Retry-After"] == "1"
    assert ReadFailed(error, 1) in world.told(ReadFailed)
    assert world.post().status_code == 200
