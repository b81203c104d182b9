"""Header fields: who may call from a browser, who a client is, and what it prefers."""

import httpx
import pytest

from plantstore.api.cors import parse_origin
from plantstore.errors import UsageError
from plantstore.messages import Address, Request
from plantstore.server.forwarded import TrustedProxies
from support.document import OPERATIONS, PATHS, response_fields
from support.world import Fields, World

# Origin: pages of other origins that call the service from a browser.

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


# What a client may send; a page knows it from the interface document.
ACCEPTED = {"Accept", "Accept-Encoding", "Accept-Patch", "Allow", "WWW-Authenticate"}
READABLE = {"expose-headers": ", ".join(sorted(response_fields() - ACCEPTED))}

# A page may always read the first two. The others are for browsers and caches.
OF_BROWSERS = {"content-type", "content-length", "content-encoding", "vary"}


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(GARDEN, marks=pytest.mark.world(allow_origin=("https://a.example", GARDEN))),
        pytest.param("*", marks=pytest.mark.world(allow_origin=("https://a.example", "*"))),
    ],
)
def test_a_preflight_allows_an_origin_the_methods_of_the_path_and_the_fields_that_it_asks_for(
    world: World, told: str
) -> None:
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


@pytest.mark.world(allow_origin=(GARDEN,))
def test_an_allowed_origin_may_read_each_field_of_the_response_of_each_operation(
    world: World,
) -> None:
    headers = {"Origin": GARDEN, "Authorization": f"Bearer {world.token}"}

    for operation in (each for each in OPERATIONS if each.method != "OPTIONS"):
        request = operation.request()
        answer = world.ask(**request | {"headers": headers | request.get("headers", {})})

        assert fields_of_cors(answer) == {"allow-origin": GARDEN} | READABLE
        assert "Origin" in answer.headers["Vary"].split(", ")
        of_cors = {f"access-control-{name}" for name in fields_of_cors(answer)}
        readable = READABLE["expose-headers"].lower().split(", ")
        assert set(answer.headers) - of_cors - OF_BROWSERS <= set(readable)


@pytest.mark.parametrize("origin", [*OTHERS, "", f"{GARDEN}.evil.example", f"{GARDEN}, *"])
@pytest.mark.world(allow_origin=(GARDEN, "https://second.example"))
def test_another_origin_may_not_read_or_send_anything(world: World, origin: str) -> None:
    for method, more in (("GET", {}), ("OPTIONS", PREFLIGHT)):
        answer = world.ask(method, "/plants", headers={"Origin": origin} | more)

        assert fields_of_cors(answer) == {}
        assert answer.headers["Vary"] == "Origin"


def test_by_default_no_other_origin_may_read_anything(world: World) -> None:
    answer = world.ask("OPTIONS", "/plants", headers=PREFLIGHT | {"Origin": GARDEN})

    assert answer.status_code == 200
    assert fields_of_cors(answer) == {}
    assert "Vary" not in answer.headers


@pytest.mark.world(allow_origin=("*",))
def test_vary_names_accept_encoding_and_origin(world: World) -> None:
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


# X-Forwarded-For and X-Forwarded-Proto: a client behind trusted and untrusted proxies.

PROXY = "127.0.0.1"
TRUSTED = [PROXY, "10.0.0.0/8", "2001:db8::/32"]
CLIENT = "203.0.113.9"


def seen(fields: dict[str, str], trusted: list[str]) -> tuple[Address | None, str]:
    """Return the address and the scheme of the client of a request that a proxy has sent."""
    request = Request("GET", "/healthz", fields=Fields(fields), client=(PROXY, 123))
    TrustedProxies(trusted).correct(request)
    return request.client, request.scheme


@pytest.mark.parametrize(
    ("trusted", "addresses", "client", "scheme"),
    [
        (TRUSTED, CLIENT, (CLIENT, 0), "https"),
        (TRUSTED, f"{CLIENT}:8080", (CLIENT, 8080), "https"),
        (TRUSTED, f"::ffff:{CLIENT}, ::ffff:10.1.1.1, [::ffff:10.1.1.1]:80", (CLIENT, 0), "https"),
        (TRUSTED, "[2001:db9::1]:443, 2001:db8::1", ("2001:db9::1", 443), "https"),
        (TRUSTED, "[2001:db9::ffff:1]:443", ("2001:db9::ffff:1", 443), "https"),
        # The client sent the first address to its proxy.
        (TRUSTED, f"198.51.100.1, {CLIENT}, 10.1.1.1,2001:db8::1", (CLIENT, 0), "https"),
        # All of them are proxies: the first one has sent the request.
        (TRUSTED, "10.0.0.1, 10.0.0.2", ("10.0.0.1", 0), "https"),
        ([], CLIENT, (PROXY, 123), "http"),
        (["10.0.0.0/8"], CLIENT, (PROXY, 123), "http"),
    ],
)
def test_only_trusted_proxies_say_the_address_and_scheme_of_a_client(
    trusted: list[str], addresses: str, client: Address, scheme: str
) -> None:
    fields = {"x-forwarded-for": addresses, "x-forwarded-proto": "https"}

    assert seen(fields, trusted) == (client, scheme)


@pytest.mark.parametrize(
    ("schemes", "expected"),
    [
        *(("http", "http"), ("https, http", "http"), ("http,https", "https")),
        *((each, "http") for each in ("", "HTTPS", "gopher", "https,", "javascript", "x" * 1024)),
    ],
)
def test_the_scheme_is_the_last_one_if_it_is_http_or_https(schemes: str, expected: str) -> None:
    fields = {"x-forwarded-for": CLIENT, "x-forwarded-proto": schemes}

    assert seen(fields, TRUSTED) == ((CLIENT, 0), expected)


@pytest.mark.parametrize(
    ("addresses", "client"),
    [
        *((each, (each, 0)) for each in ("x" * 1024, f"10.0.0.1{'0' * 1000}", "[::1", "10.0.0.1]")),
        *((each, (each, 0)) for each in ("unknown", "_hidden", "010.0.0.1", "fe80::1%eth0", "[")),
        *((each, (each, 0)) for each in (f"10.0.0.1:{'9' * 1000}", f"[2001:db8::1]:{'9' * 1000}")),
        *((f"10.0.0.1:{port}", (f"10.0.0.1:{port}", 0)) for port in ("-1", "\xb2", "x", "1.5")),
        *((each, (PROXY, 123)) for each in ("", ",", " , ,", f"{CLIENT}, ,")),
    ],
)
def test_a_hostile_address_is_no_trusted_one_and_no_error(addresses: str, client: Address) -> None:
    assert seen({"x-forwarded-for": addresses}, TRUSTED) == (client, "http")


@pytest.mark.parametrize(("trusted", "are_any"), [([], False), ([PROXY], True), (TRUSTED, True)])
def test_without_trusted_proxies_there_is_nothing_to_correct(
    trusted: list[str],
    are_any: bool,  # noqa: FBT001 (pytest passes it by name)
) -> None:
    assert bool(TrustedProxies(trusted)) is are_any
