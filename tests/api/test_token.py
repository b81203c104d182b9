"""What a client learns about its own token."""

import pytest

from plantstore.errors import ErrorCode
from support.world import World, assert_error, run


def test_a_token_is_described_with_its_name_its_scopes_and_its_end() -> None:
    async def test(world: World) -> None:
        short = world.add_token("short", "plants:read", "plants:create", expires_at=1_795_068_673)
        lasting = world.add_token("lasting", "metrics:read")

        answers = [await world.send("GET", "/token", token=token) for token in (short, lasting)]

        assert [answer.status_code for answer in answers] == [200, 200]
        assert [answer.headers["Content-Type"] for answer in answers] == ["application/json"] * 2
        assert [answer.json() for answer in answers] == [
            {
                "name": "short",
                "scopes": ["plants:create", "plants:read"],
                "expires_at": "2026-11-19T06:11:13Z",
            },
            {"name": "lasting", "scopes": ["metrics:read"]},
        ]
        head = await world.client.head("/token", headers={"Authorization": f"Bearer {short}"})
        assert (head.status_code, head.content) == (200, b"")

    run(test)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_token_that_is_missing_revoked_or_expired_is_not_described(method: str) -> None:
    async def test(world: World) -> None:
        assert (await world.client.request(method, "/token")).status_code == 401
        for changes in ({"revoked_at": 1}, {"expires_at": 1}):
            token = world.add_token(f"{changes}", **changes)
            assert (await world.send(method, "/token", token=token)).status_code == 401

    run(test)


def test_a_token_is_described_until_its_cache_entry_expires_after_a_revocation() -> None:
    async def test(world: World) -> None:
        token = world.add_token("once", "plants:read")
        assert (await world.send("GET", "/plants", token=token)).status_code == 200
        assert (await world.send("GET", "/token", token=token)).status_code == 200
        assert world.store.lookups == 1, "both operations share the cache"

        world.store.revoke_token("once", 1000)
        world.now += 1.1

        assert_error(await world.send("GET", "/token", token=token), 401, ErrorCode.TOKEN_INVALID)

    run(test)


def test_a_description_counts_as_a_use_of_the_token() -> None:
    async def test(world: World) -> None:
        assert (await world.send("GET", "/token")).status_code == 200
        assert_error(await world.send("GET", "/token"), 429, ErrorCode.RATE_EXCEEDED)
        assert_error(await world.send("GET", "/plants"), 429, ErrorCode.RATE_EXCEEDED)

    run(test, World(rate_per_token="1/hour"))


def test_a_description_takes_no_parameters() -> None:
    async def test(world: World) -> None:
        assert_error(await world.send("GET", "/token?x=1"), 400, ErrorCode.INVALID_PARAMETER)

    run(test)
