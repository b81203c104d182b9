"""Exports that end early, because the request is not allowed any more."""

from collections.abc import Callable, Generator
from typing import Any

import pytest

from plantstore.errors import ErrorCode
from plantstore.listings import EVERYTHING, Listing
from plantstore.observe import ExportCutOff, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import TellNumber
from support.fake_store import FakeStore
from support.world import World

START, BODY = "http.response.start", "http.response.body"
CUT_OFF = "cut off"


class PagedStore(FakeStore):
    """Yields each plant as a page, and counts the open snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.open_snapshots = 0

    def scan_plants(
        self,
        listing: Listing = EVERYTHING,
        tell_number: TellNumber | None = None,
    ) -> Generator[list[NewPlant], None, None]:
        self.open_snapshots += 1
        try:
            plants = super().scan_plants(listing, tell_number)
            yield from ([plant] for some in plants for plant in some)
        finally:
            self.open_snapshots -= 1


@pytest.fixture
def store() -> PagedStore:
    return PagedStore()


@pytest.fixture
def world(store: PagedStore, new_world: Callable[..., World]) -> World:
    """Return an application with three plants, each on a page of its own."""
    world: World = new_world(store)
    world.put_in(*(NewPlant(id_, "a") for id_ in range(3)))
    return world


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


def export(world: World, hear: Callable[[list[Any]], None] = lambda _sent: None) -> list[Any]:
    """Export without a network; return what was sent, and CUT_OFF if the export was cut off.

    `hear` gets what was sent after each message.
    """
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)
        hear(sent)

    async def ask() -> None:
        try:
            await world.app(world.scope_of("GET", "/plants.ndjson"), receive, send)
        except ConnectionAbortedError:
            sent.append({"type": CUT_OFF})

    world.run(ask())
    return sent


def revoke(world: World) -> None:
    world.store.revoke_token("all", 1)
    world.now += 10


def wait_too_long(world: World) -> None:
    world.now += 10_000


@pytest.mark.parametrize(
    ("end", "code"),
    [(revoke, ErrorCode.TOKEN_INVALID), (wait_too_long, ErrorCode.REQUEST_TIMEOUT)],
)
def test_an_export_that_is_not_allowed_any_more_is_cut_off_and_no_failure(
    store: PagedStore, world: World, end: Callable[[World], None], code: ErrorCode
) -> None:
    sent = export(world, lambda sent: end(world) if len(sent) == 2 else None)

    assert [message["type"] for message in sent] == [START, BODY, CUT_OFF]
    assert [event.error.code for event in world.told(ExportCutOff)] == [code]
    assert not world.told(ReadFailed)
    assert store.open_snapshots == 0


@pytest.mark.parametrize(("end", "status"), [(revoke, 401), (wait_too_long, 408)])
def test_an_export_that_finds_nothing_for_a_long_time_is_refused_when_it_is_not_allowed_any_more(
    new_world: Callable[..., World], end: Callable[[World], None], status: int
) -> None:
    worlds: list[World] = []

    class EmptyPages(FakeStore):
        def scan_plants(
            self,
            listing: Listing = EVERYTHING,  # noqa: ARG002
            tell_number: TellNumber | None = None,  # noqa: ARG002
        ) -> Generator[list[NewPlant]]:
            yield []
            end(worlds[0])
            while True:
                yield []

    worlds.append(new_world(EmptyPages()))

    assert export(worlds[0])[0]["status"] == status
