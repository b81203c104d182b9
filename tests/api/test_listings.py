"""GET /plants: search, order, links and totals, tested without a socket."""

from urllib.parse import quote, urljoin

import pytest

from plantstore.errors import ErrorCode
from plantstore.listings import COUNT_MAX
from plantstore.plants import NewPlant
from plantstore.store import Store
from support.world import World, assert_error, run


async def ids_at(world: World, path: str) -> tuple[list[int], dict[str, str]]:
    """Return the ids on a page, and the pages that it links to."""
    answer = await world.send("GET", path)
    assert answer.status_code == 200, answer.text
    links = {str(name): urljoin("/plants", link["url"]) for name, link in answer.links.items()}
    return [plant["id"] for plant in answer.json()], links


def test_a_search_by_words_goes_together_with_the_other_parameters(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(
            NewPlant(1, "Quercus alba L.", "Quercus"),
            NewPlant(2, "Ålesund"),
            NewPlant(3, "alba quercina", "Rosa"),
        )

        async def ids(query: str) -> list[int]:
            return (await ids_at(world, f"/plants?{query}"))[0]

        assert await ids("q=quer+alb") == [1, 3]
        assert await ids(f"q={quote('ÅLE')}") == [2]
        assert await ids("q=al&tag=Rosa") == [3]
        assert await ids("q=al&order=-id&limit=2") == [3, 2]
        assert await ids("q=al&after=1") == [2, 3]
        assert await ids("q=al&before=3") == [1, 2]
        assert await ids("q=") == await ids("q=-") == []

    run(test, World(store))


@pytest.mark.parametrize("order", ["id", "-id"])
@pytest.mark.parametrize("search", ["", "&q=rosa", "&q=rosa&tag=t"])
def test_the_links_lead_forth_and_back_through_all_pages(
    store: Store, order: str, search: str
) -> None:
    async def test(world: World) -> None:
        world.put_in(*(NewPlant(id_, "rosa", "t") for id_ in range(7)))
        everything = sorted(range(7), reverse=order == "-id")
        first = f"/plants?limit=3&order={order}{search}"
        pages = [await ids_at(world, first)]
        while next_page := pages[-1][1].get("next"):
            pages.append(await ids_at(world, next_page))

        assert [ids for ids, _ in pages] == [everything[:3], everything[3:6], everything[6:]]
        assert pages[0][1].keys() == {"next"}
        assert pages[1][1].keys() == {"next", "prev", "first"}
        assert pages[2][1].keys() == {"prev", "first"}
        ids, links = await ids_at(world, pages[2][1]["prev"])
        assert ids == everything[3:6]
        assert (await ids_at(world, links["next"]))[0] == everything[6:]
        ids, links = await ids_at(world, links["prev"])
        assert ids == everything[:3]
        assert "prev" not in links
        assert (await ids_at(world, links["first"]))[0] == everything[:3]

    run(test, World(store))


def test_a_page_before_the_first_plant_leads_to_the_first_page() -> None:
    async def test(world: World) -> None:
        world.put_in(NewPlant(5, "a"))

        ids, links = await ids_at(world, "/plants?before=5")

        assert ids == []
        assert await ids_at(world, links["next"]) == ([5], {})

    run(test)


def test_a_range_of_ids_has_pages_too() -> None:
    async def test(world: World) -> None:
        world.put_in(*(NewPlant(id_, "a") for id_ in range(10)))

        first = await ids_at(world, "/plants?after=2&before=6&limit=2")
        second = await ids_at(world, first[1]["next"])

        assert (first[0], second[0]) == ([3, 4], [5])
        assert [*first[1]] == ["next"]
        assert second[1] == {}
        backwards = await ids_at(world, "/plants?after=6&before=2&order=-id")
        assert backwards == ([5, 4, 3], {})
        assert await ids_at(world, "/plants?after=6&before=2") == ([], {})

    run(test)


@pytest.mark.parametrize("query", ["order=name", "order=", "order=id,-id", "before=x", "q=a&q=b"])
def test_a_parameter_that_is_invalid_is_400(query: str) -> None:
    async def test(world: World) -> None:
        assert_error(await world.send("GET", f"/plants?{query}"), 400, ErrorCode.INVALID_PARAMETER)

    run(test)


def test_a_search_text_has_a_limited_length() -> None:
    async def test(world: World) -> None:
        allowed = await world.send("GET", f"/plants?q={'×' * 99}x")
        refused = await world.send("GET", f"/plants?q={'×' * 100}x")

        assert allowed.status_code == 200
        assert_error(refused, 400, ErrorCode.INVALID_PARAMETER)
        assert "100" in refused.json()["message"]

    run(test)


def test_a_page_has_the_total_if_the_client_prefers_it(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(*(NewPlant(id_, "rosa", "t") for id_ in range(COUNT_MAX)))
        world.put_in(NewPlant(-1, "acer", "u"))

        async def total(query: str, prefer: str = "count=exact") -> tuple[str | None, str | None]:
            answer = await world.send("GET", f"/plants?{query}", fields={"Prefer": prefer})
            return answer.headers.get("Total-Count"), answer.headers.get("Preference-Applied")

        exact = "count=exact"
        assert await total("limit=1") == (str(COUNT_MAX + 1), exact)
        assert await total("after=5000&limit=1", 'COUNT="exact"; x') == (str(COUNT_MAX + 1), exact)
        assert await total("tag=t&limit=1") == (str(COUNT_MAX), exact)
        assert await total("q=acer") == ("1", exact)
        assert await total("q=-", "x, count=exact, y=z") == ("0", exact)
        assert await total("limit=1", "count=none, count=exact") == (None, None)
        assert await total("limit=1", 'x="a, count=exact, b"') == (None, None)
        world.put_in(NewPlant(-2, "rosa", "t"))
        assert await total("q=ros&limit=1") == (str(COUNT_MAX), "count=at-least")
        assert await total("tag=t&limit=1") == (str(COUNT_MAX), "count=at-least")

    run(test, World(store))
