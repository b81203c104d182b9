"""Pages of other origins that call the service from a browser."""

from collections.abc import Callable

import httpx
import pytest

from plantstore.api.cors import parse_origin
from plantstore.errors import ErrorCode, StoreUnavailableError, UsageError
from support.document import OPERATIONS, PATHS
from support.world import World, assert_error

GARDEN = "https://garden.example"
OTHERS = ["https://other.example", "http://garden.example", "https://garden.example:8443", "null"]
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-other",
}


def fields_of_cors(answer: httpx.Response) -> dict[str, str]:
    prefix = "access-control-"
    return {
        name.removeprefix(prefix): value
        for name, value in answer.headers.items()
        if name.startswith(prefix)
    }


READABLE = {
    "expose-headers": (
        "Change-Set, Changes-After, Changes-Before, Content-Disposition, ETag, Link,"
        " Preference-Applied, Retry-After, Total-Count, Untagged-Count, X-Request-Id"
    )
}


@pytest.mark.parametrize(("allowed", "told"), [(GARDEN, GARDEN), ("*", "*")])
def test_a_preflight_allows_an_origin_the_methods_of_the_path_and_the_fields_that_it_asks_for(
    new_world: Callable[..., World], allowed: str, told: str
) -> None:
    world = new_world(allow_origin=("https://first.example", allowed))

    for path in PATHS:
        url = path.replace("{id}", "1")
        answer = world.ask("OPTIONS", url, headers=PREFLIGHT | {"Origin": GARDEN})

        methods = sorted({each.method for each in OPERATIONS if each.path == path} | {"OPTIONS"})
        assert (answer.status_code, answer.content) == (200, b"")
        assert fields_of_cors(answer) == READABLE | {
            "allow-origin": told,
            "allow-methods": ", ".join(methods),
            "allow-headers": PREFLIGHT["Access-Control-Request-Headers"],
            "max-age": "86400",
        }
        assert answer.headers["Vary"] == "Origin"


def assert_readable(answer: httpx.Response) -> None:
    assert fields_of_cors(answer) == {"allow-origin": GARDEN} | READABLE
    assert "Origin" in answer.headers["Vary"].split(", ")


def test_an_allowed_origin_may_read_the_response_of_each_operation(
    new_world: Callable[..., World],
) -> None:
    world = new_world(allow_origin=(GARDEN,))
    headers = {"Origin": GARDEN, "Authorization": f"Bearer {world.token}"}

    for operation in (each for each in OPERATIONS if each.method != "OPTIONS"):
        request = operation.request()
        answer = world.ask(**request | {"headers": headers | request.get("headers", {})})

        assert_readable(answer)


def test_an_allowed_origin_may_read_errors(new_world: Callable[..., World]) -> None:
    world, full = (new_world(waiting_changes_max=room, allow_origin=(GARDEN,)) for room in (9, 0))
    origin = {"Origin": GARDEN}

    answers = [world.get("/none", **origin), world.send("PATCH", "/plants", fields=origin)]
    answers += [world.post(b"{}", fields=origin), full.post(fields=origin)]
    for failure in (StoreUnavailableError("The database cannot be read"), ZeroDivisionError()):
        world.store.fail(failure, "list_plants")
        answers.append(world.get("/plants", **origin))

    for answer in answers:
        assert_readable(answer)
    assert [answer.status_code for answer in answers] == [404, 405, 400, 503, 503, 500]
    assert_error(answers[3], 503, ErrorCode.OVERLOADED)


@pytest.mark.parametrize("origin", [*OTHERS, "", f"{GARDEN}.evil.example", f"{GARDEN}, *"])
def test_another_origin_may_not_read_or_send_anything(
    new_world: Callable[..., World], origin: str
) -> None:
    world = new_world(allow_origin=(GARDEN, "https://second.example"))

    for method, more in (("GET", {}), ("OPTIONS", PREFLIGHT)):
        answer = world.ask(method, "/plants", headers={"Origin": origin} | more)

        assert fields_of_cors(answer) == {}
        assert answer.headers["Vary"] == "Origin"


def test_by_default_no_other_origin_may_read_anything(world: World) -> None:
    answer = world.ask("OPTIONS", "/plants", headers=PREFLIGHT | {"Origin": GARDEN})

    assert answer.status_code == 200
    assert fields_of_cors(answer) == {}
    assert "Vary" not in answer.headers


def test_vary_names_accept_encoding_and_origin(new_world: Callable[..., World]) -> None:
    world = new_world(allow_origin=("*",))

    answer = world.get("/openapi.json", Origin=GARDEN)

    assert set(answer.headers["Vary"].split(", ")) == {"Accept-Encoding", "Origin"}


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("HTTPS://Garden.Example", GARDEN),
        ("https://garden.example:443", GARDEN),
        ("http://garden.example:80", "http://garden.example"),
        ("http://localhost:5173", "http://localhost:5173"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("chrome-extension://abcdef", "chrome-extension://abcdef"),
        ("*", "*"),
    ],
)
def test_an_origin_is_normalized_to_the_form_that_browsers_send(text: str, origin: str) -> None:
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "garden.example", f"{GARDEN}/", f"{GARDEN}/app"),
        *("https://ann@garden.example", "https://*.garden.example", "https://garden.example:port"),
        *(f"{GARDEN},https://other.example", f"{GARDEN}\r\nX: y"),
    ],
)
def test_an_invalid_origin_is_refused_with_a_message_of_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="must be an origin such as") as caught:
        parse_origin(text)

    assert "\n" not in caught.value.explanation
