"""Pages of other origins that call the service from a browser."""

import httpx
import pytest

from plantstore.api.cors import parse_origin
from plantstore.errors import ErrorCode, StoreUnavailableError, UsageError
from support.world import JSON, VALID, World, assert_error, run

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
        "Content-Disposition, ETag, Link, Preference-Applied, Retry-After, Total-Count,"
        " X-Request-Id"
    )
}
MAY_SEND = {
    "allow-headers": (
        "authorization, content-encoding, content-type, if-match, if-none-match, prefer"
    ),
    "allow-methods": "DELETE, GET, HEAD, PATCH, POST, PUT",
    "max-age": "7200",
}


@pytest.mark.parametrize(("allowed", "told"), [(GARDEN, GARDEN), ("*", "*")])
def test_a_preflight_tells_an_allowed_origin_its_methods_and_fields(
    allowed: str, told: str
) -> None:
    async def test(world: World) -> None:
        for path in ("/plants", "/plants/1", "/token", "/ids"):
            answer = await world.client.options(path, headers=PREFLIGHT | {"Origin": GARDEN})

            assert (answer.status_code, answer.content) == (200, b"")
            assert fields_of_cors(answer) == {"allow-origin": told} | MAY_SEND
            assert answer.headers["Vary"] == "Origin"

    run(test, World(allow_origin=["https://first.example", allowed]))


def test_an_allowed_origin_may_read_every_response_including_errors() -> None:
    async def test(world: World) -> None:
        headers = JSON | {"Authorization": f"Bearer {world.token}", "Origin": GARDEN}

        async def send(method: str, path: str, content: bytes | None = None) -> int:
            answer = await world.client.request(method, path, content=content, headers=headers)
            assert fields_of_cors(answer) == {"allow-origin": GARDEN} | READABLE
            assert "Origin" in answer.headers["Vary"].split(", ")
            return answer.status_code

        statuses = [
            await send("POST", "/plants", VALID),
            await send("GET", "/plants"),
            await send("HEAD", "/plants/1"),
            await send("DELETE", "/plants/1"),
            await send("GET", "/plants/1"),
            await send("GET", "/none"),
            await send("PATCH", "/plants"),
            await send("POST", "/plants", b"{}"),
            await send("GET", "/readyz"),
            await send("GET", "/token"),
            await send("POST", "/ids"),
        ]
        world.store.read_failure = StoreUnavailableError("The database cannot be read")
        statuses.append(await send("GET", "/plants"))
        world.store.read_failure = ZeroDivisionError()
        statuses.append(await send("GET", "/plants"))
        assert statuses == [200, 200, 200, 204, 404, 404, 405, 400, 200, 200, 200, 503, 500]

    run(test, World(allow_origin=[GARDEN]))


def test_an_allowed_origin_may_read_an_overload_response_and_its_retry_after() -> None:
    async def test(world: World) -> None:
        headers = JSON | {"Authorization": f"Bearer {world.token}", "Origin": GARDEN}
        answer = await world.post(headers=headers)

        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert fields_of_cors(answer) == {"allow-origin": GARDEN} | READABLE

    run(test, World(waiting_changes_max=0, allow_origin=[GARDEN]))


@pytest.mark.parametrize("origin", [*OTHERS, "", f"{GARDEN}.evil.example", f"{GARDEN}, *"])
def test_another_origin_may_not_read_or_send_anything(origin: str) -> None:
    async def test(world: World) -> None:
        for method, path, more in (("GET", "/plants", {}), ("OPTIONS", "/plants", PREFLIGHT)):
            answer = await world.client.request(method, path, headers={"Origin": origin} | more)

            assert fields_of_cors(answer) == {}
            assert answer.headers["Vary"] == "Origin"

    run(test, World(allow_origin=[GARDEN, "https://second.example"]))


def test_by_default_no_other_origin_may_read_anything() -> None:
    async def test(world: World) -> None:
        answer = await world.client.options("/plants", headers=PREFLIGHT | {"Origin": GARDEN})

        assert answer.status_code == 200
        assert fields_of_cors(answer) == {}
        assert "Vary" not in answer.headers

    run(test)


def test_vary_names_accept_encoding_and_origin() -> None:
    async def test(world: World) -> None:
        answer = await world.client.get("/openapi.json", headers={"Origin": GARDEN})

        assert set(answer.headers["Vary"].split(", ")) == {"Accept-Encoding", "Origin"}

    run(test, World(allow_origin=["*"]))


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (GARDEN, GARDEN),
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
        "",
        "null",
        "garden.example",
        f"{GARDEN}/",
        f"{GARDEN}/app",
        "https://ann@garden.example",
        "https://*.garden.example",
        "https://garden.example:port",
        f"{GARDEN},https://other.example",
        f"{GARDEN}\r\nX: y",
    ],
)
def test_an_invalid_origin_is_refused_with_a_message_of_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="must be an origin such as") as caught:
        parse_origin(text)

    assert "\n" not in caught.value.explanation
