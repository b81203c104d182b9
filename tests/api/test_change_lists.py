"""`POST /changes`: many changes in one request, in the test's process."""

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from plantstore.api.auth import CACHE_SECONDS, ConcurrencyLimit
from plantstore.api.error_responses import STATUS
from plantstore.api.file_imports import SHARED_BATCH_ROWS_MAX
from plantstore.commit.imports import (
    BATCH_ROWS_MAX,
    LISTED_ERRORS_MAX,
    SHOWN_BYTES_MAX,
)
from plantstore.errors import ErrorCode, StoreUnreachableError
from plantstore.observe import Committed, Imported
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.stores import GatedStore
from support.world import VALID, World, assert_error, until

NDJSON = {"Content-Type": "application/x-ndjson"}
NONE = {"stored": 0, "already_stored": 0, "replaced": 0, "deleted": 0, "refused": 0}
ABSENT: Any = object()


def line(id_: int, before: Any, after: Any) -> bytes:
    """Return a line; a state is a name, a name and a tag, None, or ABSENT."""
    states = {"before": state_of(before), "after": state_of(after)}
    return json.dumps({"id": id_} | {n: s for n, s in states.items() if s is not ABSENT}).encode()


def state_of(state: Any) -> Any:
    if isinstance(state, str):
        return {"name": state}
    return dict(zip(("name", "tag"), state, strict=True)) if isinstance(state, tuple) else state


def change(world: World, *lines: bytes, query: str = "", **more: Any) -> httpx.Response:
    fields = NDJSON | more.pop("fields", {})
    body = more.pop("content", b"\n".join(lines))
    return world.send("POST", f"/changes{query}", body, fields=fields, **more)


def test_each_line_has_an_outcome_and_a_refused_one_shows_the_stored_plant(world: World) -> None:
    world.put_in(NewPlant(7, "Rosa canina", "Rosa"), NewPlant(8, "Abies alba Mill."))
    first = world.get("/changes?after=now").headers["Changes-After"]

    answer = change(
        world,
        line(7, ("Rosa canina", "Rosa"), ("Rosa canina L.", "Rosa")),
        line(8, "Abies alba", None),
        line(9, None, "Tilia cordata"),
        line(7, ("Rosa canina", "Rosa"), ("Rosa canina L.", "Rosa")),
        line(7, None, "a"),
        line(10, "a", "b"),
        line(9, ABSENT, None),
        line(9, "Tilia cordata", None),
        b"",
        line(10, None, None),
    )

    counts = {"stored": 1, "replaced": 1, "deleted": 1, "already_stored": 2, "refused": 4}
    said = "`before` is not what is stored: "
    assert answer.status_code == 200
    errors = answer.json()["errors"]
    assert answer.json() == counts | {"errors": errors}
    assert errors[:3] == [
        {
            "line": 2,
            "error": ErrorCode.PRECONDITION_FAILED,
            "message": f"{said}another plant has the id 8",
            "plant": {"id": 8, "name": "Abies alba Mill."},
        },
        {
            "line": 5,
            "error": ErrorCode.PRECONDITION_FAILED,
            "message": f"{said}a plant has the id 7",
            "plant": {"id": 7, "name": "Rosa canina L.", "tag": "Rosa"},
        },
        {
            "line": 6,
            "error": ErrorCode.PRECONDITION_FAILED,
            "message": f"{said}no plant has the id 10",
            "plant": None,
        },
    ]
    assert [(each["line"], each["error"]) for each in errors[3:]] == [(10, ErrorCode.INVALID_PLANT)]
    assert world.store.plants == {
        7: NewPlant(7, "Rosa canina L.", "Rosa"),
        8: NewPlant(8, "Abies alba Mill."),
    }
    assert answer.headers["Changes-Before"] == first
    last = world.get("/changes?after=now").headers["Changes-After"]
    assert answer.headers["Changes-After"] == last


def test_a_list_that_is_sent_again_changes_nothing_more(world: World) -> None:
    world.put_in(*(NewPlant(id_, "a") for id_ in range(10)))
    lines = [line(id_, "a", [None, ("a", "t")][id_ % 2]) for id_ in range(10)]
    lines += [line(id_, None, "b") for id_ in range(10, 15)]

    first, again = change(world, *lines), change(world, *lines)

    counts = {"stored": 5, "replaced": 5, "deleted": 5, "already_stored": 0, "refused": 0}
    assert first.json() == counts | {"errors": []}
    assert again.json() == NONE | {"already_stored": 15, "errors": []}
    assert again.headers["Changes-Before"] == again.headers["Changes-After"]


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
    others = {"plants:create": line(9, None, "x"), "plants:update": line(3, "c", "x")}
    other = next(each for scope, each in others.items() if scope != left_out)
    token = world.add_token("some", *(scope for scope in CHANGING if scope != left_out))

    answer = change(world, content, other, token=token)

    is_refused = left_out in needed
    assert answer.status_code == 200
    assert answer.json()["refused"] == is_refused
    error = {"error": ErrorCode.SCOPE_MISSING, "message": f"The token lacks the scope {left_out}"}
    assert answer.json()["errors"] == [{"line": 1} | error] * is_refused
    assert len(world.store.plants.keys() & {9}) + (world.store.plants[3].name == "x") == 1


@pytest.mark.parametrize("scopes", [["plants:read"], ["changes:read", "metrics:read"]])
def test_a_token_without_any_scope_for_changes_is_refused(world: World, scopes: list[str]) -> None:
    token = world.add_token("reads", *scopes)

    answer = change(world, line(1, None, "a"), token=token)

    said = "lacks the scope plants:create or plants:update or plants:delete"
    assert_error(answer, 403, ErrorCode.SCOPE_MISSING, said)
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge.endswith('scope="plants:create plants:update plants:delete"')
    assert not world.store.plants


@pytest.mark.parametrize("public_read", [True, False])
def test_only_who_may_read_plants_sees_what_is_stored(
    new_world: Callable[..., World],
    *,
    public_read: bool,
) -> None:
    world = new_world(public_read=public_read)
    world.put_in(NewPlant(1, "a"))
    token = world.add_token("changes", *CHANGING)

    answer = change(world, line(1, "b", None), line(2, "b", "c"), token=token)

    shown = [each.get("plant", "none") for each in answer.json()["errors"]]
    assert shown == ([{"id": 1, "name": "a"}, None] if public_read else ["none", "none"])


def test_the_errors_of_a_response_and_their_plants_are_bounded(world: World) -> None:
    size = PLANT_BYTES_MAX - 100
    world.put_in(*(NewPlant(id_, "x" * size) for id_ in range(20)))
    lines = [line(id_ % 20, "other", None) for id_ in range(LISTED_ERRORS_MAX + 500)]

    answer = change(world, *lines)

    assert answer.json()["refused"] == len(lines)
    assert len(answer.json()["errors"]) == LISTED_ERRORS_MAX
    shown = [each["plant"] for each in answer.json()["errors"] if "plant" in each]
    assert len(shown) == SHOWN_BYTES_MAX // PLANT_BYTES_MAX
    assert len(answer.content) < SHOWN_BYTES_MAX + LISTED_ERRORS_MAX * 200


@pytest.mark.parametrize("is_tried_first", [True, False])
def test_a_dry_run_says_what_the_changes_do_then_and_changes_nothing(
    world: World, *, is_tried_first: bool
) -> None:
    rng = random.Random(5)
    states = [None, "a", "b", ("a", "t")]
    world.put_in(*(NewPlant(id_, "a") for id_ in range(0, 300, 2)))
    for many in (1_300, 0, 1):
        some = (
            (rng.randrange(300), rng.choice([ABSENT, *states]), rng.choice(states))
            for _ in range(many)
        )
        body = b"\n".join([*(line(*each) for each in some), b"x"])
        before = world.store.plants
        fields = {} if is_tried_first else {"Prefer": "return=minimal"}

        tried = change(world, query="?dry-run", content=body, fields=fields)

        assert world.store.plants == before
        assert "Changes-After" not in tried.headers
        made = change(world, content=body, fields=fields)
        assert (tried.status_code, tried.json()) == (200, {**made.json(), "dry_run": True})
        assert ("errors" in made.json()) is is_tried_first


def test_lines_are_counted_in_the_metrics_of_imports(world: World) -> None:
    world.put_in(NewPlant(1, "a"))

    change(world, line(1, "a", None), line(2, None, "b"), b"x")
    change(world, line(3, None, "b"), query="?dry-run")

    [told] = world.told(Imported)
    assert told.media_type == "application/x-ndjson"
    counts = {"stored": 1, "deleted": 1, "refused": 1}
    assert told.counts == {"already_stored": 0, "replaced": 0, "skipped": 0} | counts


@pytest.mark.parametrize(
    ("query", "fields", "body", "code"),
    [
        ("?on-conflict=skip", {}, b"", ErrorCode.INVALID_PARAMETER),
        ("?dry-run=yes", {}, b"", ErrorCode.INVALID_PARAMETER),
        ("", {"Content-Type": "text/csv"}, b"", ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ("", {"Content-Type": "application/json"}, b"", ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ("", {"Content-Encoding": "gzip"}, b"", ErrorCode.UNSUPPORTED_MEDIA_TYPE),
        ("", {}, b'[{"id":1,"after":{"name":"a"}}]', ErrorCode.INVALID_PLANT),
        ("", {}, line(1, None, "a").decode().encode("utf-16"), ErrorCode.INVALID_PLANT),
    ],
)
def test_a_body_that_is_no_list_of_changes_is_refused_as_a_whole(
    world: World, query: str, fields: dict[str, str], body: bytes, code: ErrorCode
) -> None:
    answer = change(world, query=query, fields=fields, content=body)

    assert (answer.status_code, answer.json()["error"]) == (STATUS[code], code)
    assert not world.store.plants


def test_a_failure_keeps_the_batches_before_it_and_says_how_far_they_reach(world: World) -> None:
    lines = [line(id_, None, "a") for id_ in range(BATCH_ROWS_MAX + 1)]

    def fail(changes: list[Any]) -> None:
        if changes[0].id == BATCH_ROWS_MAX:
            raise StoreUnreachableError("The database cannot be reached")

    world.store.before["apply_changes"] = fail
    answer = change(world, *lines)

    assert (answer.status_code, answer.json()["error"]) == (503, ErrorCode.STORE_UNAVAILABLE)
    assert answer.json()["lines_stored_through"] == BATCH_ROWS_MAX
    assert len(world.store.plants) == BATCH_ROWS_MAX


def test_a_body_that_ends_early_or_is_too_slow_keeps_what_was_stored(world: World) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"\n".join(line(id_, None, "a") for id_ in range(BATCH_ROWS_MAX)) + b"\n"
        yield line(-1, None, "a")
        await until(lambda: world.told(Committed))
        world.now += 1_000
        yield b"\n"
        await asyncio.sleep(3_600)

    answer = change(world, content=body())

    assert (answer.status_code, answer.json()["error"]) == (408, ErrorCode.REQUEST_TIMEOUT)
    assert answer.json()["lines_stored_through"] == BATCH_ROWS_MAX
    assert world.store.plants.keys() == {*range(BATCH_ROWS_MAX)}


def test_a_list_whose_token_is_revoked_meanwhile_keeps_what_was_stored(world: World) -> None:
    token = world.add_token("some", *CHANGING)
    lines = [line(id_, None, "a") for id_ in range(2 * BATCH_ROWS_MAX)]

    def revoke(_changes: object) -> None:
        world.store.revoke_token("some", 1000)
        world.now += CACHE_SECONDS + 0.1

    world.store.before["apply_changes"] = revoke
    answer = change(world, *lines, token=token)

    assert (answer.status_code, answer.json()["error"]) == (401, ErrorCode.TOKEN_INVALID)
    assert answer.json()["lines_stored_through"] == len(world.store.plants) == BATCH_ROWS_MAX


def test_lists_of_changes_and_imports_share_their_places(world: World) -> None:
    world.parts.imports.limit = ConcurrencyLimit(0, "imports")

    answer = change(world, line(1, None, "a"))

    assert (answer.status_code, answer.json()["error"]) == (503, ErrorCode.OVERLOADED)
    assert not world.store.plants


def test_only_one_list_at_a_time_holds_the_plants_of_outcomes_that_are_not_counted() -> None:
    store, may_go_on = GatedStore(), threading.Event()

    async def send() -> list[int]:
        loop, thread = asyncio.get_running_loop(), world.parts.imports._thread  # noqa: SLF001
        sending = [
            asyncio.ensure_future(
                world.sending("POST", "/changes", line(id_, None, "a"), fields=NDJSON)
            )
            for id_ in (1, 2)
        ]
        await asyncio.to_thread(store.entered.acquire)
        for _ in range(100):  # the second one is parsed, and waits
            await loop.run_in_executor(thread, int)
        thread.submit(may_go_on.wait)
        store.let_go.release(2)
        await until(lambda: not world.parts.writer.waiting)
        for _ in range(100):
            await asyncio.sleep(0)
            assert not world.parts.writer.waiting
        may_go_on.set()
        return [(await each).json()["stored"] for each in sending]

    with World(store) as world:
        assert world.run(send()) == [1, 1]


def test_each_line_is_one_use_of_the_token(new_world: Callable[..., World]) -> None:
    world = new_world(rate_per_token="8/day")
    lines = [line(id_, None, "a") for id_ in range(1, 10)]

    answer = change(world, *lines)

    assert (answer.status_code, answer.json()["error"]) == (429, ErrorCode.RATE_EXCEEDED)
    assert answer.json()["lines_stored_through"] == len(world.store.plants) == 8


def test_a_single_change_is_made_between_the_batches_of_a_list() -> None:
    store = GatedStore()
    lines = b"\n".join(line(id_, None, "a") for id_ in range(2, 1_200))

    async def send() -> list[int]:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(world.sending("POST", "/plants", VALID))
            await asyncio.to_thread(store.entered.acquire)
            changing = world.sending("POST", "/changes", lines, fields=NDJSON)
            listed = group.create_task(changing)
            await until(lambda: world.parts.writer.waiting > 1)
            second = group.create_task(world.sending("DELETE", "/plants/1"))
            await until(lambda: world.parts.writer.waiting > SHARED_BATCH_ROWS_MAX + 1)
            store.let_go.release(10)
        return [(await each).status_code for each in (first, listed, second)]

    with World(store) as world:
        statuses = world.run(send())

    assert statuses == [200, 200, 204]
    assert [len(batch) for batch in store.batches].index(1, 1) < len(store.batches) - 1
