"""The client's address, scheme and request id behind trusted and untrusted proxies."""

import pytest

from plantstore.api.forwarded import HOPS_MAX, parse_network
from plantstore.errors import StoreUnavailableError, UsageError
from support.world import World, run

# The in-process client of these tests comes from 127.0.0.1.
PROXY = "127.0.0.1"
TRUSTED = [PROXY, "10.0.0.0/8", "2001:db8::/32"]
CLIENT = "203.0.113.9"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def seen(fields: list[tuple[str, str]], trusted: list[str]) -> tuple[str, str]:
    """Return the address and the scheme of the client that are reported to the observer."""

    async def test(world: World) -> None:
        assert (await world.client.get("/healthz", headers=fields)).status_code == 200

    [answered] = run(test, World(trusted_proxy=trusted)).answers
    return answered.request["client"][0], answered.request["scheme"]


@pytest.mark.parametrize(
    ("fields", "client", "scheme"),
    [
        ([("X-Forwarded-For", CLIENT), ("X-Forwarded-Proto", "https")], CLIENT, "https"),
        ([("Forwarded", f"for={CLIENT};proto=https;by=10.0.0.1")], CLIENT, "https"),
        ([("Forwarded", f'For="{CLIENT}:4711" ; PROTO=HTTPS')], CLIENT, "https"),
        ([("Forwarded", 'for="[2001:db9::1]:4711"')], "2001:db9::1", "http"),
        ([("X-Forwarded-For", "2001:db9::1")], "2001:db9::1", "http"),
        ([("X-Forwarded-For", "[2001:db9::1]:80")], "2001:db9::1", "http"),
        ([("X-Forwarded-For", f"{CLIENT}:4711")], CLIENT, "http"),
        ([("X-Forwarded-For", f"::ffff:{CLIENT}")], CLIENT, "http"),
        ([("X-Forwarded-Proto", "https")], PROXY, "https"),
        ([("Forwarded", "proto=https")], PROXY, "https"),
        # Through several proxies, in one field or in several.
        ([("X-Forwarded-For", f"{CLIENT}, 10.1.1.1,10.2.2.2")], CLIENT, "http"),
        ([("X-Forwarded-For", CLIENT), ("X-Forwarded-For", "10.1.1.1")], CLIENT, "http"),
        (
            [("X-Forwarded-For", f"{CLIENT}, 10.1.1.1"), ("X-Forwarded-Proto", "https, http")],
            CLIENT,
            "https",
        ),
        ([("Forwarded", f"for={CLIENT};proto=https, for=10.1.1.1;proto=http")], CLIENT, "https"),
        ([("X-Forwarded-For", "10.1.1.1, 10.2.2.2")], "10.1.1.1", "http"),
        # Entries that the client sent to its proxy are ignored.
        ([("X-Forwarded-For", f"198.51.100.1, {CLIENT}")], CLIENT, "http"),
        ([("X-Forwarded-For", f"10.9.9.9, {CLIENT}, 10.1.1.1")], CLIENT, "http"),
        ([("X-Forwarded-For", f'", {CLIENT}')], CLIENT, "http"),
        ([("Forwarded", f"for=198.51.100.1;proto=https, for={CLIENT}")], CLIENT, "http"),
        ([("Forwarded", f'for="a, for={CLIENT};proto=https')], CLIENT, "https"),
        ([("Forwarded", f'for={CLIENT};x="a, for=198.51.100.1"')], PROXY, "http"),
        # Both fields: the proxy wrote both, or it passed on a forged one.
        ([("X-Forwarded-For", CLIENT), ("Forwarded", f"for={CLIENT}")], CLIENT, "http"),
        ([("X-Forwarded-For", CLIENT), ("Forwarded", "for=198.51.100.1")], PROXY, "http"),
        ([("X-Forwarded-For", CLIENT), ("Forwarded", "garbage")], CLIENT, "http"),
        ([("X-Forwarded-Proto", "https"), ("Forwarded", "proto=http")], PROXY, "http"),
        # Unknown, obfuscated and malformed values.
        ([("X-Forwarded-For", "unknown")], PROXY, "http"),
        ([("X-Forwarded-For", "unknown, 10.1.1.1")], "10.1.1.1", "http"),
        ([("Forwarded", "for=_hidden;proto=https")], PROXY, "https"),
        ([("Forwarded", "for=unknown")], PROXY, "http"),
        ([("X-Forwarded-For", "999.1.1.1")], PROXY, "http"),
        ([("X-Forwarded-For", "")], PROXY, "http"),
        ([("X-Forwarded-For", "a" * 10_000)], PROXY, "http"),
        ([("Forwarded", f"for={CLIENT};for={CLIENT}")], PROXY, "http"),
        ([("Forwarded", f"for={CLIENT} proto=https")], PROXY, "http"),
        ([("X-Forwarded-Proto", "gopher")], PROXY, "http"),
        (
            [("X-Forwarded-For", CLIENT), ("X-Forwarded-Proto", "https, https")],
            CLIENT,
            "http",
        ),
        ([], PROXY, "http"),
    ],
)
def test_the_address_and_scheme_of_a_client_come_from_its_trusted_proxy(
    fields: list[tuple[str, str]], client: str, scheme: str
) -> None:
    assert seen(fields, TRUSTED) == (client, scheme)


@pytest.mark.parametrize("trusted", [[], ["10.0.0.0/8"]])
def test_forwarded_fields_of_an_untrusted_peer_are_ignored(trusted: list[str]) -> None:
    fields = [
        ("X-Forwarded-For", CLIENT),
        ("X-Forwarded-Proto", "https"),
        ("Forwarded", f"for={CLIENT};proto=https"),
    ]

    assert seen(fields, trusted) == (PROXY, "http")


def test_at_most_hops_max_proxies_are_followed() -> None:
    chain = ",".join([CLIENT, *["10.1.1.1"] * HOPS_MAX])

    assert seen([("X-Forwarded-For", chain)], TRUSTED) == ("10.1.1.1", "http")
    shorter = chain.removesuffix(",10.1.1.1")
    assert seen([("X-Forwarded-For", shorter)], TRUSTED) == (CLIENT, "http")


async def id_of_failure(world: World, fields: list[tuple[str, str]]) -> str:
    world.store.read_failure = StoreUnavailableError("The database cannot be reached")
    headers = [("Authorization", f"Bearer {world.token}"), *fields]
    answer = await world.client.get("/plants", headers=headers)
    assert answer.status_code == 503
    return answer.headers["X-Request-Id"]


@pytest.mark.parametrize(
    "id_",
    [
        "d9b2d63d-a233-4123-847a-7090dc9e0f3b",
        "1f" * 16,
        "7F000001:8314_7F000001:1F90_65B2+0",
        "a/b=~.:@-" + "x" * 119,
    ],
)
def test_a_5xx_response_has_the_request_id_of_the_trusted_proxy(id_: str) -> None:
    async def test(world: World) -> None:
        trace = ("traceparent", f"00-{TRACE}-{'b' * 16}-01")

        assert await id_of_failure(world, [("X-Request-Id", id_)]) == id_
        assert await id_of_failure(world, [("X-Request-Id", id_), trace]) == id_

    run(test, World(trusted_proxy=TRUSTED))


@pytest.mark.parametrize(
    "fields",
    [
        [("X-Request-Id", "")],
        [("X-Request-Id", "a b")],
        [("X-Request-Id", "a\x1bb")],
        [("X-Request-Id", '"a"')],
        [("X-Request-Id", "\xe9")],
        [("X-Request-Id", "x" * 129)],
        [("X-Request-Id", "a"), ("X-Request-Id", "a")],
    ],
)
def test_an_invalid_request_id_of_a_trusted_proxy_is_replaced(
    fields: list[tuple[str, str]],
) -> None:
    async def test(world: World) -> None:
        encoded = [(name, value.encode("latin-1")) for name, value in fields]
        id_ = await id_of_failure(world, encoded)  # type: ignore[arg-type]

        assert len(id_) == 32
        assert id_ not in dict(fields).values()

    run(test, World(trusted_proxy=TRUSTED))


@pytest.mark.parametrize("trusted", [[], ["10.0.0.0/8"]])
def test_the_request_id_of_an_untrusted_peer_is_ignored(trusted: list[str]) -> None:
    async def test(world: World) -> None:
        trace = ("traceparent", f"00-{TRACE}-{'b' * 16}-01")

        assert await id_of_failure(world, [("X-Request-Id", "mine")]) != "mine"
        assert await id_of_failure(world, [("X-Request-Id", "mine"), trace]) == TRACE

    run(test, World(trusted_proxy=trusted))


@pytest.mark.parametrize("text", ["", "*", "localhost", "10.0.0.1/8", "10.0.0.0/33", "10.0.0"])
def test_a_trusted_proxy_must_be_an_address_or_a_network(text: str) -> None:
    with pytest.raises(UsageError, match="must be an address such as"):
        parse_network(text)
