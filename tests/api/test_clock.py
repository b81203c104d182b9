"""Clocks that are wrong or set back: tokens are still checked, and no request fails."""

import pytest

from plantstore.errors import ErrorCode
from support.world import World, assert_error, run

# The first second of the year 1900, and of the year 1.
LONG_AGO = [-2_208_988_800.0, -62_135_596_800.0]


def test_an_expired_token_is_valid_again_if_the_clock_is_set_back() -> None:
    async def test(world: World) -> None:
        token = world.add_token("short", expires_at=2000)
        world.now = 2000.0
        assert_error(await world.post(token=token), 401, ErrorCode.TOKEN_INVALID)

        world.now = 1999.0

        assert (await world.post(token=token)).status_code == 200
        world.now = 2000.0
        assert_error(await world.post(token=token), 401, ErrorCode.TOKEN_INVALID)

    run(test)


def test_a_revoked_token_stays_revoked_if_the_clock_is_set_back() -> None:
    async def test(world: World) -> None:
        world.store.revoke_token("all", 2000)

        for now in (1999.0, 0.0, *LONG_AGO):
            world.now = now
            assert_error(await world.post(), 401, ErrorCode.TOKEN_INVALID)

    assert not run(test).store.plants


@pytest.mark.parametrize("now", [0.0, -0.5, *LONG_AGO])
def test_with_a_clock_before_1970_only_valid_tokens_are_accepted(now: float) -> None:
    async def test(world: World) -> None:
        short = world.add_token("short", expires_at=2000)
        expired = world.add_token("expired", expires_at=int(now) - 1)
        assert (await world.post(token=short)).status_code == 200

        world.now = now

        for token in (world.token, short):
            assert (await world.post(token=token)).status_code == 200
            assert (await world.send("GET", "/plants/1", token=token)).status_code == 200
        assert_error(await world.post(token=expired), 401, ErrorCode.TOKEN_INVALID)
        assert_error(await world.post(token="made up"), 401, ErrorCode.TOKEN_INVALID)

    run(test)


def test_a_clock_that_jumps_back_and_forth_makes_no_request_fail() -> None:
    async def test(world: World) -> None:
        short = world.add_token("short", expires_at=2000)
        for now in (1e12, 1000.0, -1e12, 2000.0, 0.0, 1999.9, *LONG_AGO):
            world.now = now
            expected = 200 if now < 2000 else 401
            assert (await world.post(token=short)).status_code == expected
            assert (await world.post()).status_code == 200

    run(test)
