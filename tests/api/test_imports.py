"""Imports and lists of changes, in the test's process."""

import asyncio
import json
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx
import pytest

from plantstore.api.auth import CACHE_SECONDS
from plantstore.api.bulk_changes import IMPORTS_MAX, SHARED_BATCH_ROWS_MAX, SWITCH_SECONDS
from plantstore.api.error_responses import STATUS
from plantstore.api.file_imports import BYTES_PER_SECOND_MIN
from plantstore.changes import Change
from plantstore.commit.imports import BATCH_ROWS_MAX, LISTED_ERRORS_MAX, SHOWN_BYTES_MAX
from plantstore.errors import (
    ClientGoneError,
    ErrorCode,
    NothingDoneError,
    StoreUnavailableError,
)
from plantstore.formats import FORMATS
from plantstore.observe import Committed, Imported
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.stores import Gate
from support.streams import lines
from support.world import JSON, VALID, ShownThreads, World, until

NDJSON = {"Content-Type": "application/x-ndjson"}
CSV = {"Content-Type": "text/csv"}
ABSENT: Any = object()


def line(id_: int, before: Any, after: Any) -> bytes:
    """Return a change; a state is a name, a name and a tag, None, or ABSENT."""
    states = {"before": state_of(before), "after": state_of(after)}
    return json.dumps({"id": id_} | {n: s for n, s in states.items() if s is not ABSENT}).encode()


def state_of(state: Any) -> Any:
    if isinstance(state, str):
        return {"name": state}
    return dict(zip(("name", "tag"), state, strict=True)) if isinstance(state, tuple) else state


def change(world: World, *changes: bytes, query: str = "", **more: Any) -> httpx.Response:
    fields = NDJSON | more.pop("fields", {})
    return world.send("POST", f"/changes{query}", b"\n".join(changes), fields=fields, **more)


def creates(first: int, end: int) -> list[bytes]:
    return [line(id_, None, "a") for id_ in range(first, end)]


def assert_ended(answer: httpx.Response, status: int, code: ErrorCode, through: int) -> None:
    """Assert that an import ended with an error, and that it says how many lines are stored."""
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer.json()["lines_stored_through"] == through


def block_commits(world: World) -> Gate:
    gate = world.store.before["apply_changes"] = Gate()
    return gate


def test_an_import_without_valid_rows_commits_nothing(world: World) -> None:
    refused = world.send("POST", "/plants.ndjson", b'{"id":"x"}\n', fields=NDJSON)

    assert refused.json()["refused"] == 1
    assert not world.told(Committed)


def test_an_import_that_is_cancelled_twice_keeps_its_place_until_its_batch_is_settled(
    world: World,
) -> None:
    gate = block_commits(world)

    async def cancel_twice() -> tuple[int, int]:
        others = asyncio.all_tasks()
        sending = world.sending("POST", "/plants.ndjson", lines(1, 2), fields=NDJSON)
        task = asyncio.ensure_future(sending)
        await asyncio.to_thread(gate.entered.acquire)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        answer = await task
        told = len(world.told(Imported))
        gate.let_go.release()
        await asyncio.wait(asyncio.all_tasks() - others)
        return answer.status_code, told

    status, told_before = world.run(cancel_twice())

    assert (status, told_before) == (503, 0)
    assert [event.counts["stored"] for event in world.told(Imported)] == [2]


# Imports.


@pytest.mark.parametrize("is_shared", [True, False])
def test_batches_are_small_beside_single_changes(world: World, *, is_shared: bool) -> None:
    gate, shared = block_commits(world), SHARED_BATCH_ROWS_MAX

    async def send() -> None:
        async with asyncio.TaskGroup() as group:
            if is_shared:
                group.create_task(world.sending("POST", "/plants", VALID))
                await asyncio.to_thread(gate.entered.acquire)
            rows = lines(2, 2 * shared + 2)
            group.create_task(world.sending("POST", "/plants.ndjson", rows, fields=NDJSON))
            # The import has parsed rows, and its first batch waits.
            await until(lambda: world.parts.writer.waiting >= shared)
            gate.let_go.release(4)

    world.run(send())

    sizes = [len(batch) for [batch] in gate.asked]
    assert sizes == ([1, shared, shared, 1] if is_shared else [2 * shared + 1])


def test_threads_switch_faster_while_an_import_runs(world: World) -> None:
    seen: list[float] = []

    async def body() -> AsyncIterator[bytes]:
        seen.append(sys.getswitchinterval())
        yield b"id,name\n"

    world.send("POST", "/plants.csv", body(), fields=CSV)

    assert seen == [SWITCH_SECONDS]
    assert sys.getswitchinterval() > SWITCH_SECONDS


def test_an_import_that_fails_after_it_stored_rows_does_not_say_that_nothing_was_done(
    world: World,
) -> None:
    def fail(_changes: Sequence[Change]) -> None:
        if world.store.plants:
            raise NothingDoneError("The database cannot be reached")

    world.store.before["apply_changes"] = fail
    rows = lines(1, BATCH_ROWS_MAX + 1)

    answer = world.send("POST", "/plants.ndjson", rows, fields=NDJSON)

    assert_ended(answer, 503, ErrorCode.STORE_UNAVAILABLE, BATCH_ROWS_MAX)
    assert answer.json()["message"] == "The database cannot be reached"
    assert len(world.store.plants) == BATCH_ROWS_MAX


@pytest.mark.parametrize("path", ["/plants.ndjson", "/changes", "/undo?set=set-a-0123456789"])
def test_imports_lists_of_changes_and_undos_share_their_places(world: World, path: str) -> None:
    for number in range(IMPORTS_MAX):
        world.parts.bulk.limit.acquire(f"{number}")

    answer = world.send("POST", path, fields=NDJSON)

    assert (answer.status_code, answer.json()["error"]) == (503, ErrorCode.OVERLOADED)
    assert answer.json()["message"] == "Too many imports and undos run; nothing was done"


# Dry runs.


def rows_of(rng: random.Random, many: int) -> bytes:
    plants = [NewPlant(rng.randrange(600), rng.choice("ab")) for _ in range(many)]
    without_tags = FORMATS["csv"].render(plants).replace(b",\r", b"\r")
    return b"".join([b"id,name\n", without_tags, b"x,y\n"])


def changes_of(rng: random.Random, many: int) -> bytes:
    states = [None, "a", "b", ("a", "t")]
    some = [
        line(rng.randrange(300), rng.choice([ABSENT, *states]), rng.choice(states))
        for _ in range(many)
    ]
    return b"\n".join([*some, b"x"])


@pytest.mark.parametrize(
    ("path", "body_of", "fields"),
    [
        ("/plants.csv?on-conflict=refuse", rows_of, CSV),
        ("/plants.csv?on-conflict=skip", rows_of, CSV | {"Prefer": "return=minimal"}),
        ("/plants.csv?on-conflict=replace", rows_of, CSV),
        ("/changes?", changes_of, NDJSON),
    ],
)
def test_a_dry_run_says_what_the_changes_do_then_and_changes_nothing(
    world: World,
    path: str,
    body_of: Callable[[random.Random, int], bytes],
    fields: dict[str, str],
) -> None:
    rng = random.Random(path)
    for many in (900, 0, 1, 1_300):
        body, before = body_of(rng, many), world.store.plants
        last = world.get("/changes?after=now").headers["Changes-After"]
        told = len(world.told(Imported))

        tried = world.send("POST", f"{path}&dry-run=true", body, fields=fields)

        assert world.store.plants == before
        assert world.get("/changes?after=now").headers["Changes-After"] == last
        assert "Changes-After" not in tried.headers
        assert len(world.told(Imported)) == told
        made = world.send("POST", path, body, fields=fields)
        assert (tried.status_code, tried.json()) == (200, {**made.json(), "dry_run": True})
        assert ("errors" in made.json()) is ("Prefer" not in fields)
        assert made.headers.get("Preference-Applied") == fields.get("Prefer")


@pytest.mark.parametrize(("others", "remembered"), [(0, 1), (31, 0)])
def test_imports_share_the_memory_of_dry_runs(world: World, others: int, remembered: int) -> None:
    for number in range(others):
        world.parts.bulk.limit.acquire(f"{number}")
    rows = lines(1, 5_000) + lines(1, 1)

    answer = world.send("POST", "/plants.ndjson?dry-run=true", rows, fields=NDJSON)

    assert answer.json()["already_stored"] == remembered


def test_a_dry_run_that_cannot_read_the_plants_is_503_and_says_that_nothing_is_stored(
    world: World,
) -> None:
    def fail(ids: Sequence[int]) -> None:
        if any(id_ > BATCH_ROWS_MAX for id_ in ids):
            raise StoreUnavailableError("The database cannot be read")

    world.store.before["find_plants"] = fail
    path, rows = "/plants.ndjson?dry-run=true", lines(1, BATCH_ROWS_MAX + 1)

    answer = world.send("POST", path, rows, fields=NDJSON)

    assert_ended(answer, 503, ErrorCode.STORE_UNAVAILABLE, 0)
    assert answer.json()["message"] == "The database cannot be read"


def test_a_dry_run_is_answered_while_the_writer_waits_for_the_disk(world: World) -> None:
    gate = block_commits(world)

    async def try_beside_a_create() -> httpx.Response:
        create = asyncio.ensure_future(world.sending("POST", "/plants", VALID))
        await asyncio.to_thread(gate.entered.acquire)
        tried = world.sending("POST", "/plants.ndjson?dry-run", lines(1, 2), fields=NDJSON)
        try:
            return await asyncio.wait_for(tried, 20)
        finally:
            gate.let_go.release(9)
            await create

    assert world.run(try_beside_a_create()).json()["stored"] == 2


# Lists of changes.


def test_each_line_has_an_outcome_and_a_refused_one_shows_the_stored_plant(world: World) -> None:
    world.put_in(NewPlant(7, "Rosa canina", "Rosa"), NewPlant(8, "Abies alba Mill."))
    first = world.get("/changes?after=now").headers["Changes-After"]

    answer = change(
        world,
        line(7, ("Rosa canina", "Rosa"), ("Rosa canina L.", "Rosa")),
        line(8, "Abies alba", None),
        line(9, None, "Tilia cordata"),
        line(9, "Tilia cordata", None),
        b"",
        line(10, "a", "b"),
    )

    counts = {"stored": 1, "replaced": 1, "deleted": 1, "already_stored": 0, "refused": 2}
    assert answer.status_code == 200
    errors = answer.json().pop("errors")
    assert answer.json() == counts | {"errors": errors}
    assert [(each["line"], each["error"], each["plant"]) for each in errors] == [
        (2, ErrorCode.PRECONDITION_FAILED, {"id": 8, "name": "Abies alba Mill."}),
        (6, ErrorCode.PRECONDITION_FAILED, None),
    ]
    assert world.store.plants[7] == NewPlant(7, "Rosa canina L.", "Rosa")
    assert answer.headers["Changes-Before"] == first
    last = world.get("/changes?after=now").headers["Changes-After"]
    assert answer.headers["Changes-After"] == last
    [told] = world.told(Imported)
    assert (told.media_type, told.counts) == (
        "application/x-ndjson",
        counts | {"skipped": 0},
    )


# The scopes that each kind of change needs.
KINDS = {
    "create": (line(2, None, "b"), {"plants:create"}),
    "update": (line(1, "a", "b"), {"plants:update"}),
    "delete": (line(1, "a", None), {"plants:delete"}),
    "put": (line(1, ABSENT, "b"), {"plants:create", "plants:update"}),
    "remove": (line(1, ABSENT, None), {"plants:delete"}),
}
CHANGING = ["plants:create", "plants:update", "plants:delete"]


@pytest.mark.parametrize("left_out", CHANGING)
@pytest.mark.parametrize("kind", KINDS)
def test_a_line_needs_the_scopes_of_its_change_and_only_it_is_refused(
    world: World, kind: str, left_out: str
) -> None:
    world.put_in(NewPlant(1, "a"), NewPlant(3, "c"))
    content, needed = KINDS[kind]
    other = line(9, None, "x") if left_out != "plants:create" else line(3, "c", "x")
    token = world.add_token("some", *(scope for scope in CHANGING if scope != left_out))

    answer = change(world, content, other, token=token)

    error = {"error": ErrorCode.SCOPE_MISSING, "message": f"The token lacks the scope {left_out}"}
    assert answer.status_code == 200
    assert answer.json()["errors"] == [{"line": 1} | error] * (left_out in needed)
    assert "x" in {plant.name for plant in world.store.plants.values()}


@pytest.mark.parametrize(
    "shown",
    [
        ["none", "none"],
        pytest.param([{"id": 1, "name": "a"}, None], marks=pytest.mark.world(public_read=True)),
    ],
)
def test_only_who_may_read_plants_sees_what_is_stored(world: World, shown: list[Any]) -> None:
    world.put_in(NewPlant(1, "a"))
    token = world.add_token("changes", *CHANGING)

    answer = change(world, line(1, "b", None), line(2, "b", "c"), token=token)

    assert [each.get("plant", "none") for each in answer.json()["errors"]] == shown


def test_the_errors_of_a_response_and_their_plants_are_bounded(world: World) -> None:
    size = PLANT_BYTES_MAX - 100
    world.put_in(*(NewPlant(id_, "x" * size) for id_ in range(20)))
    changes = [line(id_ % 20, "other", None) for id_ in range(LISTED_ERRORS_MAX + 500)]

    answer = change(world, *changes)

    assert answer.json()["refused"] == len(changes)
    assert len(answer.json()["errors"]) == LISTED_ERRORS_MAX
    shown = [each["plant"] for each in answer.json()["errors"] if "plant" in each]
    assert len(shown) == SHOWN_BYTES_MAX // PLANT_BYTES_MAX


@pytest.mark.parametrize(
    ("path", "fields", "body", "code"),
    [
        ("/changes?on-conflict=skip", {}, b"", ErrorCode.INVALID_PARAMETER),
        ("/changes?dry-run=yes", {}, b"", ErrorCode.INVALID_PARAMETER),
        ("/changes", {"Content-Type": "text/json"}, b"", ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ("/changes", {"Content-Encoding": "gzip"}, b"", ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ("/changes", {}, b'[{"id":1,"after":{"name":"a"}}]', ErrorCode.INVALID_PLANT),
        ("/plants.ndjson?on-conflict=merge", {}, VALID, ErrorCode.INVALID_PARAMETER),
        ("/plants.ndjson", JSON, VALID, ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        (
            *("/plants.csv", {"Content-Type": "text/csv; header=absent"}),
            *(b"id,name\n1,a\n", ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ),
    ],
)
def test_what_is_no_list_of_changes_and_no_file_is_refused_as_a_whole(
    world: World, path: str, fields: dict[str, str], body: bytes, code: ErrorCode
) -> None:
    answer = world.send("POST", path, body, fields=NDJSON | fields)

    assert (answer.status_code, answer.json()["error"]) == (STATUS[code], code)
    assert ("Accept-Encoding" in answer.headers) is (code == ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert not world.store.plants


@pytest.mark.parametrize(
    ("path", "media_type", "body"),
    [
        ("/plants.ndjson", "Application/X-NDJSON; charset=utf-8", VALID),
        ("/plants.csv", 'text/csv; charset="UTF-8"; header=present', b"NAME;ID\na;1\n"),
        *(("/plants.ndjson", each, VALID) for each in ("application/x-www-form-urlencoded", "")),
    ],
)
def test_every_media_type_of_a_file_is_read(
    world: World, path: str, media_type: str, body: bytes
) -> None:
    answer = world.send("POST", path, body, fields={"Content-Type": media_type})

    assert (answer.status_code, answer.json()["stored"]) == (200, 1)


def test_to_replace_plants_a_token_needs_both_scopes(world: World) -> None:
    creates = world.add_token("creates", "plants:create")
    paths = ("/plants.ndjson", "/plants.ndjson?on-conflict=replace")

    statuses = [
        world.send("POST", path, VALID, creates, fields=NDJSON).status_code for path in paths
    ]

    assert statuses == [200, 403]


def test_a_body_that_ends_early_or_is_too_slow_keeps_what_was_stored(world: World) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"\n".join(creates(0, BATCH_ROWS_MAX)) + b"\n"
        yield line(-1, None, "a")
        await until(lambda: world.told(Committed))
        world.now += 1_000
        yield b"\n"
        await asyncio.sleep(3_600)

    answer = world.send("POST", "/changes", body(), fields=NDJSON)

    assert_ended(answer, 408, ErrorCode.REQUEST_TIMEOUT, BATCH_ROWS_MAX)
    assert world.store.plants.keys() == {*range(BATCH_ROWS_MAX)}


# How many seconds pass before each piece of a body, and the bytes of the piece.
PACES = {
    "as slow as it may be": ([(5, 5 * BYTES_PER_SECOND_MIN)] * 20, 200),
    "slower": ([(5, 4 * BYTES_PER_SECOND_MIN)] * 20, 408),
    "a pause after many bytes": ([(0, 64 * BYTES_PER_SECOND_MIN), (11, 1), (0, 1)], 408),
}


@pytest.mark.parametrize(("pace", "status"), PACES.values(), ids=PACES)
def test_a_body_must_arrive_with_a_minimum_of_bytes_per_second(
    world: World, pace: list[tuple[int, int]], status: int
) -> None:
    async def body() -> AsyncIterator[bytes]:
        for seconds, size in pace:
            await asyncio.sleep(0)
            world.now += seconds
            yield b"\n" * size

    assert world.send("POST", "/plants.ndjson", body(), fields=NDJSON).status_code == status


def test_a_list_whose_token_is_revoked_meanwhile_keeps_what_was_stored(world: World) -> None:
    token = world.add_token("some", *CHANGING)

    def revoke(_changes: object) -> None:
        world.store.revoke_token("some", 1000)
        world.now += CACHE_SECONDS + 0.1

    world.store.before["apply_changes"] = revoke
    answer = change(world, *creates(0, 2 * BATCH_ROWS_MAX), token=token)

    assert_ended(answer, 401, ErrorCode.TOKEN_INVALID, BATCH_ROWS_MAX)
    assert len(world.store.plants) == BATCH_ROWS_MAX


@pytest.mark.world(rate_per_token="8/day")
def test_a_list_that_is_longer_than_the_rate_gets_further_when_it_is_sent_again(
    world: World,
) -> None:
    first, *_, last = (change(world, *creates(1, 20)) for world.now in range(1000, 10**6, 10**5))

    assert_ended(first, 429, ErrorCode.RATE_EXCEEDED, 8)
    assert last.status_code == 200
    assert len(world.store.plants) == 19


@pytest.mark.world(rate_per_token="2/day")
def test_a_dry_run_is_one_use_of_the_token(world: World) -> None:
    answer = change(world, *creates(1, 5), query="?dry-run=true")

    assert answer.status_code == 200
    assert [world.get("/token").status_code for _ in range(2)] == [200, 429]


@pytest.mark.world(rate_per_token="4/second")
def test_a_list_waits_if_its_token_may_be_used_again_soon(world: World) -> None:
    async def send() -> httpx.Response:
        body = b"\n".join(creates(1, 7))
        sending = asyncio.ensure_future(world.sending("POST", "/changes", body, fields=NDJSON))
        while not sending.done():
            await asyncio.sleep(0.01)
            world.now += 0.01
        return await sending

    assert world.run(send()).json()["stored"] == 6


def test_an_import_ends_between_two_batches_when_its_client_leaves(world: World) -> None:
    many = 5 * BATCH_ROWS_MAX
    request = world.request("POST", "/plants.ndjson")
    request.body = lines(1, many)
    request.is_client_gone = lambda: world.store.calls["apply_changes"] > 0

    with pytest.raises(ClientGoneError):
        world.run(world.app(request))

    assert 0 < len(world.store.plants) < many


@pytest.mark.world(rate_per_token="4/second")
def test_a_list_whose_client_has_left_does_not_wait_for_its_rate(world: World) -> None:
    """The clock stands still, so the rate would never permit the rest."""
    request = world.request("POST", "/changes", **{"content-type": "application/x-ndjson"})
    request.body = b"\n".join(creates(1, 7))
    request.is_client_gone = lambda: len(world.store.plants) == 4

    with pytest.raises(ClientGoneError):
        world.run(world.app(request))

    assert len(world.store.plants) == 4


@pytest.mark.world(rate_per_token="4/day")
def test_a_list_that_is_not_made_counts_as_one_use_of_its_token(world: World) -> None:
    request = world.request("POST", "/changes", **{"content-type": "application/x-ndjson"})
    request.body = b"\n".join(creates(1, 7))
    has_left = iter([False, False])  # until its uses are counted
    request.is_client_gone = lambda: next(has_left, True)

    with pytest.raises(ClientGoneError):
        world.run(world.app(request))

    assert [world.get("/token").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_list_is_answered_if_the_feed_cannot_be_read_after_it(world: World) -> None:
    def fail(*_: object) -> None:
        if world.store.plants:
            raise StoreUnavailableError("disk I/O error")

    world.store.before["read_changes"] = fail

    answer = change(world, *creates(1, 3))

    assert (answer.status_code, answer.json()["stored"]) == (200, 2)
    assert "Changes-After" not in answer.headers


def test_only_one_list_at_a_time_holds_the_plants_of_outcomes_that_are_not_counted() -> None:
    threads, may_go_on = ShownThreads(), threading.Event()

    async def send() -> list[int]:
        loop, thread = asyncio.get_running_loop(), threads.pools["import"]
        sending = [
            asyncio.ensure_future(
                world.sending("POST", "/changes", line(id_, None, "a"), fields=NDJSON)
            )
            for id_ in (1, 2)
        ]
        await asyncio.to_thread(gate.entered.acquire)
        for _ in range(100):  # the second one is parsed, and waits
            await loop.run_in_executor(thread, int)
        thread.submit(may_go_on.wait)
        gate.let_go.release(2)
        await until(lambda: not world.parts.writer.waiting)
        for _ in range(100):
            await asyncio.sleep(0)
            assert not world.parts.writer.waiting
        may_go_on.set()
        return [(await each).json()["stored"] for each in sending]

    with World(threads=threads) as world:
        gate = block_commits(world)
        assert world.run(send()) == [1, 1]
