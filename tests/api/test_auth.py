"""Which tokens may create a plant, tested without a socket: 401, 403 and 503."""

import asyncio

import pytest

from plantstore.api.auth import CACHE_SECONDS
from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.tokens import mint
from support.world import JSON, VALID, World, assert_error, run


@pytest.mark.parametrize(
    ("headers", "challenge", "code"),
    [
        ({}, 'Bearer realm="plantstore"', ErrorCode.TOKEN_MISSING),
        (
            {"Authorization": "Basic YTpi"},
            'Bearer realm="plantstore"',
            ErrorCode.TOKEN_MISSING,
        ),
        *(
            (
                {"Authorization": value},
                'Bearer realm="plantstore", error="invalid_token"',
                ErrorCode.TOKEN_INVALID,
            )
            for value in ("Bearer", "Bearer ", "Bearer x", "Bearer é", f"Bearer {mint()}")
        ),
    ],
)
def test_without_a_valid_token_the_response_is_a_401_with_a_challenge(
    headers: dict[str, str], challenge: str, code: ErrorCode
) -> None:
    async def test(world: World) -> None:
        encoded = [(name.encode(), value.encode()) for name, value in (JSON | headers).items()]
        answer = await world.client.post("/plants", content=VALID, headers=encoded)
        assert_error(answer, 401, code)
        assert answer.headers["WWW-Authenticate"] == challenge

    assert not run(test).store.plants


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_bearer_may_be_in_upper_or_lower_case(scheme: str) -> None:
    async def test(world: World) -> None:
        answer = await world.post(headers=JSON | {"Authorization": f"{scheme} {world.token}"})
        assert answer.status_code == 200

    run(test)


def test_a_token_in_the_query_is_not_accepted() -> None:
    async def test(world: World) -> None:
        path = f"/plants?access_token={world.token}"
        answer = await world.client.post(path, content=VALID, headers=JSON)
        assert_error(answer, 401, ErrorCode.TOKEN_MISSING)

    run(test)


def test_a_token_without_the_scope_gets_a_403_that_names_the_scope() -> None:
    async def test(world: World) -> None:
        answer = await world.post(token=world.add_token("reader", "plants:read"))
        assert_error(answer, 403, ErrorCode.SCOPE_MISSING)
        assert answer.headers["WWW-Authenticate"] == (
            'Bearer realm="plantstore", error="insufficient_scope", scope="plants:create"'
        )

    run(test)


def test_a_token_is_refused_from_the_second_in_which_it_expires() -> None:
    async def test(world: World) -> None:
        token = world.add_token("short", expires_at=1002)
        assert (await world.post(token=token)).status_code == 200
        world.now = 1001.9
        assert (await world.post(token=token)).status_code == 200
        world.now = 1002.0
        assert_error(await world.post(token=token), 401, ErrorCode.TOKEN_INVALID)

    run(test)


def test_a_revoked_token_is_refused_once_its_cache_entry_expires() -> None:
    async def test(world: World) -> None:
        assert (await world.post()).status_code == 200
        world.store.revoke_token("all", 1000)
        world.now += CACHE_SECONDS + 0.1
        answer = await world.post()
        assert_error(answer, 401, ErrorCode.TOKEN_INVALID)
        assert "revoked" in answer.json()["message"]

    assert CACHE_SECONDS <= 2
    run(test)


def test_a_cached_token_is_not_looked_up_and_concurrent_requests_share_one_look_up() -> None:
    async def test(world: World) -> None:
        await asyncio.gather(*(world.post() for _ in range(10)))
        assert world.store.lookups == 1
        await world.post()
        assert world.store.lookups == 1

        await world.post(token=mint()[:-1] + "!")
        assert world.store.lookups == 1, "a wrong checksum is refused without a look-up"

    run(test)


def test_when_tokens_cannot_be_looked_up_the_response_is_503() -> None:
    async def test(world: World) -> None:
        world.store.failure = StoreUnavailableError("The database cannot be read: disk I/O error")
        answer = await world.post()
        assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
        assert answer.headers["Retry-After"] == "1"
        world.store.failure = None
        assert (await world.post()).status_code == 200

    run(test)
