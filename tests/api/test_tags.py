"""The tags with the numbers of their plants: `GET /tags`."""

import asyncio
import threading
from collections.abc import Callable
from urllib.parse import quote, urljoin

import pytest

from plantstore.errors import ErrorCode
from plantstore.listings import TagListing, TagsPage
from plantstore.plants import NewPlant
from support.stores import MemoryStore
from support.world import World, assert_error

TAGS = ["Rosa", "rosa", "Rosa", "Bed 10", "Bed 2", "", None, None, None]


def test_tags_are_listed_by_name_or_by_the_number_of_their_plants(world: World) -> None:
    world.put_in(*(NewPlant(id_, "a", tag) for id_, tag in enumerate(TAGS)))

    by_tag, by_plants = world.get("/tags"), world.get("/tags?sort=-plants")

    assert by_tag.json() == [
        *({"tag": "", "plants": 1}, {"tag": "Bed 2", "plants": 1}, {"tag": "Bed 10", "plants": 1}),
        *({"tag": "rosa", "plants": 1}, {"tag": "Rosa", "plants": 2}),
    ]
    assert [each["plants"] for each in by_plants.json()] == [2, 1, 1, 1, 1]
    assert by_plants.json()[0] == {"tag": "Rosa", "plants": 2}
    assert by_tag.headers["Untagged-Count"] == by_plants.headers["Untagged-Count"] == "3"
    assert [each["tag"] for each in world.get("/tags?q=BED+1").json()] == ["Bed 10"]
    assert world.get("/tags?q=Ros%C3%A1").json() == by_tag.json()[3:]


@pytest.mark.parametrize("sort", ["tag", "-plants"])
def test_the_links_lead_through_all_tags_whatever_they_are(world: World, sort: str) -> None:
    tags = ["🌱" * 4_000, "×" * 8_000, "\u0800" * 5_000, "\u0800" * 5_000 + "a", "1 " * 8_000, "x"]
    world.put_in(*(NewPlant(id_, "a", tags[id_ % len(tags)]) for id_ in range(20)))

    found: list[str] = []
    path: str | None = f"/tags?limit=1&sort={sort}"
    while path is not None:
        assert len(path) < 1024
        answer = world.get(path)
        found += [each["tag"] for each in answer.json()]
        assert ("first" in answer.links) is (len(found) > 1)
        path = urljoin("/", answer.links["next"]["url"]) if "next" in answer.links else None

    assert sorted(found) == sorted(tags)


@pytest.mark.parametrize(
    ("query", "named"),
    [
        *(
            ("limit=0", "limit"),
            ("sort=plants", "tag or -plants"),
            ("q=" + "x" * 101, "at most 100"),
        ),
        *((f"after={quote(text)}", "after") for text in ("", "5", "x.a", f"1.{'a' * 201}")),
        *(("tag=a", "tag"), ("before=1", "before")),
    ],
)
def test_a_parameter_that_is_wrong_or_unknown_is_400(world: World, query: str, named: str) -> None:
    assert_error(world.get(f"/tags?{query}"), 400, ErrorCode.INVALID_PARAMETER, named)


class CountingStore(MemoryStore):
    """Blocks each count of tags until the test releases it, and records which was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[TagListing] = []
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Semaphore(0)

    def list_tags(self, listing: TagListing) -> TagsPage:
        self.asked.append(listing)
        self.entered.release()
        self.let_go.acquire()
        return super().list_tags(listing)


def test_one_count_runs_at_a_time_and_those_who_wait_share_the_next(
    new_world: Callable[..., World],
) -> None:
    store = CountingStore()
    world = new_world(store)

    async def ask() -> list[int]:
        first = asyncio.ensure_future(world.sending("GET", "/tags"))
        await asyncio.to_thread(store.entered.acquire)
        others = [asyncio.ensure_future(world.sending("GET", "/tags")) for _ in range(5)]
        while world.parts.reader.waiting < 6:  # noqa: ASYNC110 (a count on another thread)
            await asyncio.sleep(0)
        store.let_go.release(6)
        return [answer.status_code for answer in await asyncio.gather(first, *others)]

    assert world.run(ask()) == [200] * 6
    assert store.asked == [TagListing()] * 2
