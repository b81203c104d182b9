"""Which tokens may do what, also when the clock is wrong; and what a client learns of its own."""

import asyncio
from collections.abc import Awaitable, Iterator
from queue import SimpleQueue

import httpx
import pytest

from plantstore.api.auth import CACHE_SECONDS, PAUSE_SECONDS, WAITING_LOOKUPS_MAX, Authenticator
from plantstore.api.limits import RatePerToken
from plantstore.errors import ErrorCode, RequestError
from plantstore.messages import Request
from plantstore.observe import RequestRefused, ignore
from plantstore.threads import Threads
from plantstore.tokens import SCOPES, TokenRecord, digest, mint
from support.document import NAMES, OPERATIONS, Operation
from support.stores import MemoryStore
from support.world import VALID, World, assert_error

# A well-formed token that no store has.
UNKNOWN = "plst_CJnt2qBmtjhzepopTvX6gSUtOxPkzM0jBnaq"

# The first second of the year 1900, and of the year 1.
LONG_AGO = [-2_208_988_800.0, -62_135_596_800.0]


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_an_operation_needs_the_scope_that_the_document_names_and_no_other(
    world: World, operation: Operation
) -> None:
    request = operation.request()
    headers: dict[str, str] = request.pop("headers", {})
    several = (operation.scope or "").split()
    others = world.add_token("others", *(set(SCOPES) - {*several}))
    alone = [world.add_token(f"alone {each}", each) for each in several]

    without = world.ask(**request, headers=headers)
    with_others, *with_one = (
        world.ask(**request, headers=headers | {"Authorization": f"Bearer {token}"})
        for token in (others, *alone)
    )

    assert (without.status_code == 401) is operation.needs_token
    assert (with_others.status_code == 403) is (operation.scope is not None)
    challenge = with_others.headers.get("WWW-Authenticate", f'scope="{operation.scope}"')
    assert challenge.endswith(f'scope="{operation.scope}"')
    assert not any(each.status_code in {401, 403} for each in with_one)


def test_a_put_that_only_creates_needs_the_scope_of_a_create_alone(world: World) -> None:
    create = world.add_token("create", "plants:create")
    update = world.add_token("update", "plants:update")
    fields = {"If-None-Match": "*"}

    refused = world.send("PUT", "/plants/1", VALID, update, fields)
    made = world.send("PUT", "/plants/1", VALID, create, fields)
    others = [
        world.send("PUT", "/plants/1", VALID, create, other)
        for other in (None, {"If-None-Match": '"*"'}, {"If-Match": "*"})
    ]

    assert_error(refused, 403, ErrorCode.SCOPE_MISSING)
    assert 'scope="plants:create"' in refused.headers["WWW-Authenticate"]
    assert made.status_code == 201
    assert [other.status_code for other in others] == [403] * 3


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("Basic YTpi", ErrorCode.TOKEN_MISSING),
        *((value, ErrorCode.TOKEN_INVALID) for value in ("Bearer", "Bearer ", "Bearer x")),
        *((value, ErrorCode.TOKEN_INVALID) for value in ("Bearer é", f"Bearer {UNKNOWN}")),
    ],
)
def test_without_a_valid_token_the_response_is_a_401_with_a_challenge(
    world: World, value: str, code: ErrorCode
) -> None:
    headers = [(b"Content-Type", b"application/json"), (b"Authorization", value.encode())]

    answer = world.ask("POST", "/plants", content=VALID, headers=headers)

    assert_error(answer, 401, code)
    is_invalid = code is ErrorCode.TOKEN_INVALID
    assert answer.headers["WWW-Authenticate"] == (
        'Bearer realm="plantstore"' + ', error="invalid_token"' * is_invalid
    )
    assert not world.store.plants
    # The log shows who tries tokens. The in-process client has this address.
    assert world.told(RequestRefused) == [RequestRefused(code, ("127.0.0.1", 123))]


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_bearer_may_be_in_upper_or_lower_case(world: World, scheme: str) -> None:
    assert world.get("/plants", Authorization=f"{scheme} {world.token}").status_code == 200


@pytest.mark.parametrize("now", [1999.9, 2000.0, 1e12, 0.0, -1e12, *LONG_AGO])
def test_a_token_is_refused_while_the_clock_says_that_it_is_expired(
    world: World, now: float
) -> None:
    short = world.add_token("short", expires_at=2000)
    expired = world.add_token("expired", expires_at=int(now) - 1)
    assert world.post(token=short).status_code == 200

    world.now = now

    assert world.post(token=short).status_code == (200 if now < 2000 else 401)
    assert world.post().status_code == 200
    assert_error(world.post(token=expired), 401, ErrorCode.TOKEN_INVALID, "The token is expired")


def test_a_revoked_token_is_refused_once_its_cache_entry_expires(world: World) -> None:
    assert world.post().status_code == 200
    world.store.revoke_token("all", 1000)
    world.now += CACHE_SECONDS + 0.1

    assert_error(world.post(), 401, ErrorCode.TOKEN_INVALID, "revoked")
    for world.now in (999.0, 0.0, *LONG_AGO):
        assert_error(world.post(), 401, ErrorCode.TOKEN_INVALID)
    assert CACHE_SECONDS <= 2


def test_requests_with_one_token_share_a_lookup(world: World) -> None:
    world.send_together(*[("GET", "/plants"), ("GET", "/token")] * 5)
    assert world.store.calls["find_token"] == 1
    world.post()
    assert world.store.calls["find_token"] == 1

    world.post(token=mint()[:-1] + "!")

    assert world.store.calls["find_token"] == 1, "a wrong checksum is refused without a lookup"


class HeldStore(MemoryStore):
    """A store that answers some lookups only when allowed, with what it had when it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: SimpleQueue[None] = SimpleQueue()
        self.allowed: SimpleQueue[None] = SimpleQueue()
        self.held: set[bytes] = set()

    def find_token(self, digest: bytes) -> TokenRecord | None:
        found = super().find_token(digest)
        if digest in self.held:
            self.asked.put(None)
            self.allowed.get()
        return found


@pytest.fixture
def slow() -> Iterator[World]:
    """Return an application with such a store."""
    with World(HeldStore()) as world:
        yield world


async def begun(
    answer: Awaitable[httpx.Response], iterations: int = 50
) -> asyncio.Future[httpx.Response]:
    """Let a request come as far as it can."""
    request = asyncio.ensure_future(answer)
    for _ in range(iterations):
        await asyncio.sleep(0)
    return request


def test_a_request_accepts_no_lookup_that_may_be_older_than_a_revocation(slow: World) -> None:
    slow.store.held.add(digest(slow.token))

    async def revoke_while_the_store_answers() -> list[int]:
        before = await begun(slow.sending("GET", "/plants"))
        await asyncio.to_thread(slow.store.asked.get)
        slow.store.revoke_token("all", 1000)
        slow.now += CACHE_SECONDS + 0.1
        after = await begun(slow.sending("GET", "/plants"))
        slow.store.allowed.put(None)
        slow.store.allowed.put(None)
        return [(await request).status_code for request in (before, after)]

    assert slow.run(revoke_while_the_store_answers()) == [200, 401]


def test_a_known_token_does_not_wait_for_lookups_of_others(slow: World) -> None:
    invented = mint()
    slow.store.held.add(digest(invented))

    async def ask_beside_another() -> list[int]:
        statuses = [(await slow.sending("GET", "/plants")).status_code]
        unknown = await begun(slow.sending("GET", "/plants", token=invented))
        await asyncio.to_thread(slow.store.asked.get)
        late = slow.add_token("late", "plants:read")
        waiting = await begun(slow.sending("GET", "/plants", token=late))
        slow.now += CACHE_SECONDS + 0.1
        statuses.append((await slow.sending("GET", "/plants")).status_code)
        slow.store.allowed.put(None)
        statuses += [(await request).status_code for request in (unknown, waiting)]
        lookups = slow.store.calls["find_token"]
        statuses.append((await slow.sending("GET", "/plants", token=late)).status_code)
        assert slow.store.calls["find_token"] == lookups
        return statuses

    assert slow.run(ask_beside_another()) == [200, 200, 401, 200, 200]


def test_of_many_tokens_that_wait_to_be_looked_up_further_ones_are_503(slow: World) -> None:
    """A client may leave before its token was looked up, so its connections are no limit."""
    first = mint()
    slow.store.held.add(digest(first))

    async def ask() -> list[httpx.Response]:
        known = (await slow.sending("GET", "/plants")).status_code
        leaving = await begun(slow.sending("GET", "/plants", token=first))
        await asyncio.to_thread(slow.store.asked.get)
        for _ in range(WAITING_LOOKUPS_MAX - 1):
            (await begun(slow.sending("GET", "/plants", token=mint()), iterations=5)).cancel()
        refused = await slow.sending("GET", "/plants", token=mint())
        slow.now += CACHE_SECONDS + 0.1
        assert [known, (await slow.sending("GET", "/plants")).status_code] == [200, 200]
        slow.store.allowed.put(None)
        return [refused, await leaving]

    refused, answered = slow.run(ask())

    assert_error(refused, 503, ErrorCode.OVERLOADED, "Too many tokens wait to be looked up")
    assert_error(answered, 401, ErrorCode.TOKEN_INVALID)


def bearing(token: str) -> Request:
    return Request("GET", "/plants", fields={"authorization": f"Bearer {token}"})


def test_the_thread_pauses_only_after_a_token_that_the_store_does_not_have(world: World) -> None:
    pauses: list[float] = []

    class Noting(Threads):
        def sleep(self, seconds: float) -> None:
            pauses.append(seconds)

    authenticator = Authenticator(
        world.store, lambda: 0.0, lambda: 0.0, RatePerToken(None), ignore, threads=Noting()
    )

    assert world.run(authenticator.authenticate(bearing(world.token))).name == "all"
    assert pauses == []
    with pytest.raises(RequestError, match="The token is unknown"):
        world.run(authenticator.authenticate(bearing(mint())))
    assert pauses == [PAUSE_SECONDS]


def test_the_cache_of_tokens_is_emptied_when_it_is_full(world: World) -> None:
    authenticator = Authenticator(
        *(world.store, lambda: 0.0, lambda: 0.0, RatePerToken(None), ignore), cached_max=1
    )

    for token in (world.token, world.add_token("other"), world.token):
        world.run(authenticator.authenticate(bearing(token)))

    assert world.store.calls["find_token"] == 3


def test_a_token_is_described_with_its_name_its_scopes_and_its_end(world: World) -> None:
    short = world.add_token("short", "plants:read", "plants:create", expires_at=1_795_068_673)
    lasting = world.add_token("lasting", "metrics:read")

    answers = [world.send("GET", "/token", token=token) for token in (short, lasting)]

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


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
@pytest.mark.world(rate_per_token="2/hour")
def test_a_request_is_one_use_of_its_token(world: World, operation: Operation) -> None:
    request = operation.request()
    headers = {**request.pop("headers", {}), "Authorization": f"Bearer {world.token}"}
    world.ask(**request, headers=headers)

    left = [200, 429] if operation.needs_token else [200, 200, 429]
    assert [world.get("/token").status_code for _ in left] == left


@pytest.mark.world(rate_per_token="1/hour")
def test_requests_that_are_refused_for_other_reasons_do_not_count(world: World) -> None:
    reader = world.add_token("reader", "plants:read")

    refused = [world.post(token=reader).status_code for _ in range(3)]
    read = [world.send("GET", "/plants", token=reader).status_code for _ in range(2)]

    assert (refused, read) == ([403] * 3, [200, 429])


@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
@pytest.mark.world(public_read=True)
def test_with_public_read_the_operations_that_read_plants_need_no_token_and_no_scope(
    world: World, operation: Operation
) -> None:
    request = operation.request()
    headers: dict[str, str] = request.pop("headers", {})
    is_public = operation.scope == "plants:read"
    other = world.add_token("other", *(set(SCOPES) - {"plants:read"}))

    statuses = [
        world.ask(**request, headers=headers | fields).status_code
        for fields in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": f"Bearer {other}"})
    ]

    assert [status == 401 for status in statuses[:2]] == [
        operation.needs_token and not is_public
    ] * 2
    assert statuses[2] not in {401, 403}
    assert ({} in operation.content.get("security", ())) is is_public


@pytest.mark.world(public_read=True)
def test_with_public_read_a_wrong_token_is_401_and_the_challenge_says_that_none_is_needed(
    world: World,
) -> None:
    read, made = (world.send(method, "/plants", VALID, UNKNOWN) for method in ("GET", "POST"))

    for answer in (read, made):
        assert_error(answer, 401, ErrorCode.TOKEN_INVALID, "The token is unknown")
    challenge = 'Bearer realm="plantstore", error="invalid_token"'
    told = f'{challenge}, error_description="Plants can be read without a token"'
    assert [each.headers["WWW-Authenticate"] for each in (read, made)] == [told, challenge]


@pytest.mark.world(public_read=True, rate_per_token="3/hour")
def test_requests_without_a_token_share_one_rate_and_the_places_of_one_token(world: World) -> None:
    paths = ["/plants/1", "/plants", "/plants.csv"]

    answers = [world.ask("GET", path) for path in paths]
    refused = world.ask("GET", "/plants")
    with_token = world.send("GET", "/plants")

    assert [answer.status_code for answer in answers] == [404, 200, 200]
    said = "The service without a token may be used at most 3/hour"
    assert_error(refused, 429, ErrorCode.RATE_EXCEEDED, said)
    assert with_token.status_code == 200
