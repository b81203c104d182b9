"""The address and the scheme of a client behind trusted and untrusted proxies."""

import pytest

from plantstore.server.interface import Address, Request
from support.world import World, fields_of

PROXY = "127.0.0.1"
TRUSTED = [PROXY, "10.0.0.0/8", "2001:db8::/32"]
CLIENT = "203.0.113.9"


def seen(fields: list[tuple[str, str]], trusted: list[str]) -> tuple[Address | None, str]:
    """Return the address and the scheme of the client of a request that a proxy has sent."""
    proxies = World(trusted_proxy=tuple(trusted)).server.proxies
    request = Request("GET", "/healthz", fields=fields_of(fields), client=(PROXY, 123))
    proxies.correct(request)
    return request.client, request.scheme


@pytest.mark.parametrize(
    ("trusted", "addresses", "client", "scheme"),
    [
        (TRUSTED, CLIENT, (CLIENT, 0), "https"),
        (TRUSTED, f"{CLIENT}:8080", (CLIENT, 8080), "https"),
        (TRUSTED, "[2001:db9::1]:443, 2001:db8::1", ("2001:db9::1", 443), "https"),
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
    fields = [("X-Forwarded-For", addresses), ("X-Forwarded-Proto", "https")]

    assert seen(fields, trusted) == (client, scheme)


def test_several_lines_of_addresses_are_one_list() -> None:
    fields = [("X-Forwarded-For", each) for each in ("198.51.100.1", CLIENT, "10.1.1.1")]

    assert seen(fields, TRUSTED) == ((CLIENT, 0), "http")


@pytest.mark.parametrize(
    ("schemes", "expected"),
    [
        *(("http", "http"), ("https, http", "http"), ("http,https", "https")),
        *((each, "http") for each in ("", "HTTPS", "gopher", "https,", "javascript", "x" * 1024)),
    ],
)
def test_the_scheme_is_the_last_one_if_it_is_http_or_https(schemes: str, expected: str) -> None:
    fields = [("X-Forwarded-For", CLIENT), ("X-Forwarded-Proto", schemes)]

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
    assert seen([("X-Forwarded-For", addresses)], TRUSTED) == (client, "http")


@pytest.mark.parametrize(("trusted", "are_any"), [([], False), ([PROXY], True), (TRUSTED, True)])
def test_without_trusted_proxies_there_is_nothing_to_correct(
    trusted: list[str],
    are_any: bool,  # noqa: FBT001 (pytest passes it by name)
) -> None:
    assert bool(World(trusted_proxy=tuple(trusted)).server.proxies) is are_any
