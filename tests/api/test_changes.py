"""`GET /changes`: pages of changes, and streams of them."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from plantstore.api.change_feed import STREAMS_MAX
from plantstore.changes import Deletion, Replacement
from plantstore.commit.tail import EVENTS_BYTES_MAX, SENT_BYTES_MAX
from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.messages import Response
from plantstore.plants import NewPlant, Plant
from support.events import Event, parse
from support.world import World, assert_error

JSON, EVENTS = "application/json", "text/event-stream"


def numbers(world: World) -> list[int]:
    return [change.number for change in world.store.read_changes(0, 100).items]


def test_a_page_has_the_changes_in_order_with_the_plants_afterwards(world: World) -> None:
    world.put_in(NewPlant(1, "a", "t"), NewPlant(2, "b"))
    world.store.apply_changes([Replacement(1, Plant("×")), Deletion(2)])
    first, *_, last = numbers(world)

    answer = world.get("/changes")

    assert answer.status_code == 200
    assert [(each["change"], each["plant"]) for each in answer.json()] == [
        ("created", {"id": 1, "name": "a", "tag": "t"}),
        ("created", {"id": 2, "name": "b"}),
        ("replaced", {"id": 1, "name": "×"}),
        ("deleted", {"id": 2}),
    ]
    assert answer.json()[0].keys() == {"number", "change", "at", "plant"}
    assert (answer.json()[0]["number"], answer.headers["Changes-After"]) == (first, str(last))
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Vary"] == "Accept"
    assert "Link" not in answer.headers


def test_links_lead_to_all_changes(world: World) -> None:
    world.put_in(*(NewPlant(id_, "a") for id_ in range(5)))

    answers = [world.get("/changes?limit=2")]
    while link := answers[-1].headers.get("Link"):
        assert link.endswith('>; rel="next"')
        answers.append(world.get(f"/{link[1:].partition('>')[0]}"))

    found = [change["number"] for answer in answers for change in answer.json()]
    assert found == numbers(world)
    assert [len(answer.json()) for answer in answers] == [2, 2, 1]
    assert world.get(f"/changes?after={found[-1]}").json() == []
    assert world.get("/changes?limit=5000").json()[4]["plant"]["id"] == 4


@pytest.mark.parametrize("after", ["-1", str(2**63), "1e99", "x", "", "NOW", "1.5", "%00"])
def test_the_refusal_of_a_number_out_of_bounds_names_the_bounds(world: World, after: str) -> None:
    answer = world.get(f"/changes?after={after}")

    assert_error(answer, 400, ErrorCode.INVALID_PARAMETER, "from 0 to 9223372036854775807")
    streamed = world.get("/changes", Accept="text/event-stream", Last_Event_ID=after or "-")
    assert streamed.status_code == 400


@pytest.mark.parametrize("accept", [JSON, EVENTS])
def test_a_follower_that_cannot_continue_gets_410_with_the_first_number_that_is_left(
    world: World, accept: str
) -> None:
    world.put_in(NewPlant(1, "a"))
    [number] = numbers(world)

    for after in (1, number + 1, 2**63 - 1):
        answer = world.get(f"/changes?after={after}", Accept=accept)

        assert answer.status_code == 410
        assert answer.json()["error"] == ErrorCode.CHANGES_GONE
        assert answer.json()["first_number"] == number
        assert f"first left is {number}. Export the plants again" in answer.json()["message"]


@pytest.mark.parametrize("accept", [JSON, EVENTS])
def test_a_feed_that_is_off_says_so(world: World, accept: str) -> None:
    world.store.keep_changes(0)

    assert_error(world.get("/changes", Accept=accept), 404, ErrorCode.FEED_OFF, "--changes-keep 0")


def test_an_import_tells_no_numbers_while_the_feed_is_off(world: World) -> None:
    """While it is on: tests/api/test_imports.py."""
    world.store.keep_changes(0)

    answer = world.send("POST", "/plants.csv", b"id,name\n2,b\n", fields={"Content-Type": ""})

    assert answer.status_code == 200
    assert not {"Changes-Before", "Changes-After"} & set(answer.headers)


class Sent:
    """What the application sends to the client of a stream, as far as the client reads it."""

    def __init__(self, response: Response) -> None:
        self.response = response
        self.sizes: list[int] = []
        self._pieces: Any = response.body

    async def body(self) -> bytes:
        """Wait for the next piece of the body."""
        piece: bytes = await anext(self._pieces)
        self.sizes.append(len(piece))
        return piece

    async def events(self, count: int) -> list[Event]:
        """Wait for a number of events."""
        found: list[Event] = []
        while len(found) < count:
            found += parse(iter((await self.body()).splitlines(keepends=True)))
        return found

    def json(self) -> Any:
        """Return the content of a response that is no stream."""
        assert isinstance(self.response.body, bytes)
        return json.loads(self.response.body)

    async def end(self) -> None:
        """Wait for the end of the response."""
        async for _ in self._pieces:
            pass


@contextlib.asynccontextmanager
async def streaming(
    world: World,
    query: str = "after=now",
    status: int = 200,
    is_gone: Callable[[], bool] = lambda: False,
    **fields: str,
) -> AsyncIterator[Sent]:
    """Follow the changes while the block runs."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    request = world.request("GET", "/changes", **{"accept": EVENTS} | named)
    request.query, request.is_client_gone = query, is_gone
    response = await world.call(request)
    async with contextlib.AsyncExitStack() as stack:
        if not isinstance(response.body, bytes):
            await stack.enter_async_context(contextlib.aclosing(response.body))
        assert response.status == status
        yield Sent(response)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        *((each, EVENTS) for each in (EVENTS, "Text/Event-Stream;q=0.1", f"*/*, ,{EVENTS} ;a=b")),
        *((each, EVENTS) for each in (f"{EVENTS}, {JSON}", f"application/jso,{EVENTS},{JSON}")),
        (f"{JSON}, {EVENTS}", JSON),  # as generated clients send it
        (f"Application/JSON;q=0.1, {EVENTS}", JSON),
        *((each, JSON) for each in ("", ",", "*/*", "text/*", "text/html", f"{EVENTS}x", "/;;,")),
    ],
)
def test_a_stream_is_sent_if_accept_names_its_type_and_not_json_before_it(
    world: World, accept: str, expected: str
) -> None:
    async def media_type() -> str:
        async with streaming(world, accept=accept) as sent:
            return sent.response.fields["Content-Type"].partition(";")[0]

    assert world.run(media_type()) == expected


def test_a_stream_begins_with_the_number_at_which_its_client_would_resume(world: World) -> None:
    world.put_in(NewPlant(1, "a"))
    [number] = numbers(world)

    async def first() -> bytes:
        async with streaming(world) as sent:
            assert sent.response.fields["Content-Type"] == "text/event-stream; charset=utf-8"
            return await sent.body()

    assert world.run(first()) == (
        f'retry: 1000\nid: {number}\nevent: position\ndata: {{"number":{number}}}\n\n'.encode()
    )


def test_a_stream_resumes_after_the_last_event_of_its_client(world: World) -> None:
    world.put_in(*(NewPlant(id_, "a") for id_ in range(3)))
    last = str(numbers(world)[1])

    async def follow() -> list[Event]:
        async with streaming(world, "after=0", last_event_id=last) as sent:
            return await sent.events(1)

    assert [event.data["plant"]["id"] for event in world.run(follow())] == [2]


@pytest.mark.parametrize("kept", [1, 3])
def test_slow_and_late_clients_get_all_changes_in_pieces_though_their_events_are_no_longer_kept(
    world: World, kept: int
) -> None:
    """Each character of a name has six in an event, so a page has more than is sent at once."""
    size, many = 15_000, kept * EVENTS_BYTES_MAX // 15_000

    async def follow() -> list[list[int]]:
        async with streaming(world) as slow, streaming(world) as quick:
            for id_ in range(many):
                world.put_in(NewPlant(id_, "\x01" * (size // 6)))
                await quick.events(1)
            async with streaming(world, "after=0") as late:
                got = [await each.events(many) for each in (slow, late)]
                assert max(slow.sizes + late.sizes[1:]) <= SENT_BYTES_MAX
        return [[event.data["plant"]["id"] for event in events] for events in got]

    assert world.run(follow()) == [list(range(many))] * 2


def test_a_comment_is_sent_if_there_is_no_change_for_15_seconds(world: World) -> None:
    async def follow() -> bytes:
        async with streaming(world) as sent:
            await sent.body()
            world.now += 15
            return await sent.body()

    assert world.run(follow()) == b":\n"


def revoke(world: World, _gone: list[bool]) -> None:
    world.store.revoke_token("all", 1)
    world.now += 1.5


ENDS: dict[str, Callable[[World, list[bool]], object]] = {
    "its token is revoked": revoke,
    "its client is gone": lambda _world, gone: gone.append(True),
    "the feed is switched off": lambda world, _gone: world.store.keep_changes(0),
    "the service stops": lambda world, _gone: world.parts.changes.stop(),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_stream_ends_when(world: World, end: Callable[[World, list[bool]], object]) -> None:
    gone: list[bool] = []

    async def follow() -> None:
        async with streaming(world, is_gone=lambda: bool(gone)) as sent:
            await sent.body()
            assert world.parts.changes.limit.running == 1
            end(world, gone)
            await sent.end()
            assert world.parts.changes.limit.running == 0

    world.run(follow())


def test_a_stream_continues_while_tokens_cannot_be_looked_up(world: World) -> None:
    async def follow() -> list[Event]:
        async with streaming(world) as sent:
            await sent.body()
            error = StoreUnavailableError("The database cannot be read")
            world.store.fail(error, "find_token")
            world.now += 1.5
            world.put_in(NewPlant(1, "a"))
            return await sent.events(1)

    assert len(world.run(follow())) == 1


def test_a_stop_refuses_new_streams_and_no_pages(world: World) -> None:
    world.parts.changes.stop()

    async def follow() -> None:
        async with streaming(world, status=503):
            pass

    world.run(follow())

    assert world.get("/changes").status_code == 200


def test_streams_over_the_limit_are_503_and_a_place_is_free_after_one_ends(world: World) -> None:
    limit, others = world.parts.changes.limit, STREAMS_MAX * 3 // 4 - 1
    for _ in range(others):
        limit.acquire("all")

    async def follow() -> Any:
        async with streaming(world), streaming(world, status=503) as refused:
            message = refused.json()["message"]
        async with streaming(world):
            return message

    assert world.run(follow()) == (
        "Too many streams of changes with this token run; nothing was done"
    )
    assert limit.running == others


def test_head_has_the_headers_of_a_page_but_none_that_its_content_determines(world: World) -> None:
    world.put_in(*(NewPlant(id_, "a") for id_ in range(5)))
    path = "/changes?limit=2"

    answer = world.send("HEAD", path, fields={"Accept": "text/event-stream"})

    page = world.get(path)
    assert (answer.status_code, answer.content) == (200, b"")
    for name in ("Content-Type", "Vary"):
        assert answer.headers[name] == page.headers[name]
    assert not {"changes-after", "link", "content-length"} & set(answer.headers)
