"""GET of one plant, of pages of plants, and of tags."""

import asyncio
from typing import Any
from urllib.parse import quote, urljoin

import pytest

from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.listings import COUNT_MAX, TagListing
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from support.document import OPERATIONS
from support.stores import Gate
from support.world import World, assert_error, until

FIR = NewPlant(2, "Abies balsamea (L.) Mill.", "Abies")
ROSE = NewPlant(-7, "Rosa × damascena")
UNTITLED = NewPlant(3, "", "")
METHODS = [each.method for each in OPERATIONS if each.path == "/plants/{id}" and each.scope]


def record(plant: NewPlant) -> dict[str, Any]:
    tag = {} if plant.tag is None else {"tag": plant.tag}
    return {"id": plant.id, "name": plant.name, **tag}


def page_at(world: World, path: str) -> tuple[list[int], dict[str, str]]:
    """Return the ids on a page, and the pages that it links to.

    Some clients resolve a link with the address of its page, and others with that of the service.
    """
    answer = world.get(path)
    assert answer.status_code == 200, answer.text
    urls = {str(name): link["url"] for name, link in answer.links.items()}
    links = {name: urljoin("/plants", url) for name, url in urls.items()}
    assert links == {name: urljoin("/", url) for name, url in urls.items()}
    return [plant["id"] for plant in answer.json()], links


def ids(world: World, query: str) -> list[int]:
    return page_at(world, f"/plants?{query}")[0]


def test_plants_are_read_with_their_ids_and_with_their_tags_if_they_have_one(world: World) -> None:
    assert world.get("/plants").json() == []
    world.put_in(FIR, ROSE, UNTITLED)

    alone = [world.get(f"/plants/{plant.id}") for plant in (ROSE, FIR, UNTITLED)]
    page = world.get("/plants")

    assert {(each.status_code, each.headers["Content-Type"]) for each in (*alone, page)} == {
        (200, "application/json")
    }
    assert [each.json() for each in alone] == [record(ROSE), record(FIR), record(UNTITLED)]
    assert page.json() == [each.json() for each in alone]
    assert "Link" not in page.headers


@pytest.mark.parametrize("method", METHODS)
def test_a_path_whose_id_is_no_int64_or_has_a_query_is_400(world: World, method: str) -> None:
    world.put_in(FIR)
    texts = ["x", "1.5", "0x1", "007", "+1", " 1", "1_0", "1e", "٣", "1\n2", str(ID_MAX + 1)]

    for path in (*map(quote, texts), "2?tag=Abies"):
        answer = world.send(method, f"/plants/{path}", b'{"name": "a"}')

        assert answer.status_code == 400
        assert method == "HEAD" or answer.json()["error"] == ErrorCode.INVALID_PARAMETER
    assert world.store.plants == {2: FIR}


def test_a_tag_and_the_words_of_a_search_go_together_with_the_other_parameters(
    world: World,
) -> None:
    world.put_in(
        *(NewPlant(1, "Quercus alba L.", "Quercus"), NewPlant(2, "Ålesund", "rosa")),
        *(NewPlant(3, "alba quercina", "Rosa"), NewPlant(4, "x", "")),
    )

    assert ids(world, "tag=Rosa") == [3]
    assert ids(world, "tag=") == [4]
    assert ids(world, "tag=Ros%25") == ids(world, "tag=%00") == []
    assert ids(world, "q=quer+alb") == [1, 3]
    assert ids(world, f"q={quote('ÅLE')}") == [2]
    assert ids(world, "q=al&tag=Rosa") == [3]
    assert ids(world, "q=al&order=-id&limit=2") == [3, 2]
    assert ids(world, "q=al&after=1") == [2, 3]
    assert ids(world, "q=al&before=3") == [1, 2]
    assert ids(world, "q=") == ids(world, "q=-") == []


@pytest.mark.parametrize("order", ["id", "-id"])
@pytest.mark.parametrize("search", ["", "&q=rosa", "&tag=" + quote("a&b=×, c")])
def test_the_links_lead_forth_and_back_through_all_pages(
    world: World, order: str, search: str
) -> None:
    everything = sorted((ID_MIN, -1, 0, 1, 5, 9, ID_MAX), reverse=order == "-id")
    world.put_in(*(NewPlant(id_, "rosa", "a&b=×, c") for id_ in everything))

    pages = [page_at(world, f"/plants?limit=3&order={order}{search}")]
    while next_page := pages[-1][1].get("next"):
        pages.append(page_at(world, next_page))
    back = [page_at(world, pages[2][1]["prev"])]
    back.append(page_at(world, back[0][1]["prev"]))

    assert [ids for ids, _ in pages] == [everything[:3], everything[3:6], everything[6:]]
    assert [links.keys() for _, links in pages] == [
        *({"next"}, {"next", "prev", "first"}, {"prev", "first"})
    ]
    assert [ids for ids, _ in back] == [everything[3:6], everything[:3]]
    assert "prev" not in back[1][1]
    assert page_at(world, back[0][1]["next"])[0] == everything[6:]
    assert page_at(world, back[1][1]["first"])[0] == everything[:3]


@pytest.mark.parametrize(("order", "behind"), [("id", 3), ("-id", 1)])
def test_a_page_whose_plants_were_deleted_leads_back(world: World, order: str, behind: int) -> None:
    world.put_in(*(NewPlant(id_, "rosa") for id_ in (1, 2, 3)))

    found, links = page_at(world, f"/plants?limit=2&order={order}&after={behind}")

    assert found == []
    assert page_at(world, links["prev"])[0] == sorted([2, behind], reverse=order == "-id")


def test_the_links_lead_through_plants_in_order_by_name_whatever_is_changed(world: World) -> None:
    names = ["Bed 2", "×bed 10", "Bed 10", "Łódź", "lodz", "z" * 16_000, "🌱" * 4_000, "×" * 8_000]
    names += ["\u0800" * 5_000, "\U00020000" * 64 + "b", "\U00020000" * 64 + "a"]
    world.put_in(*(NewPlant(id_, name, "a&b") for id_, name in enumerate(names)))
    in_order = [6, 7, 0, 1, 2, 3, 4, 5, 8, 9, 10]

    for query in ("sort=name", "order=name", "sort=name&tag=a%26b", "sort=name&order=name"):
        found: list[int] = []
        links = {"next": f"/plants?{query}&limit=1"}
        while "next" in links:
            path = links["next"]
            page, links = page_at(world, path)
            found += page
            assert links.keys() <= {"next", "first"}
            assert ("first" in links) is (len(found) > 1)
            assert len(path) < 1024
        assert found == in_order, query
        assert page_at(world, links["first"])[0] == [6]

    _, links = page_at(world, "/plants?sort=name&limit=4")
    assert world.send("DELETE", "/plants/1").status_code == 204
    assert world.send("PUT", "/plants/2", b'{"name": "zz"}').status_code == 200
    assert page_at(world, links["next"])[0] == [3, 4, 2, 5]
    assert ids(world, "sort=name&from=BED+9") == [3, 4, 2, 5, 8, 9, 10]
    assert ids(world, "sort=name&untagged") == ids(world, "untagged=true&q=z") == [2]
    assert ids(world, "untagged=1&q=z") == [2]
    assert ids(world, "untagged=0&tag=a") == ids(world, "tag=a")


def test_a_range_of_ids_has_pages_too(world: World) -> None:
    world.put_in(*(NewPlant(id_, "a") for id_ in range(10)))

    first = page_at(world, "/plants?after=2&before=6&limit=2")
    second = page_at(world, first[1]["next"])
    backwards = page_at(world, "/plants?after=6&before=2&order=-id")
    before_all = page_at(world, "/plants?before=0")

    assert (first[0], second) == ([3, 4], ([5], {}))
    assert [*first[1]] == ["next"]
    assert backwards == ([5, 4, 3], {})
    assert page_at(world, "/plants?after=6&before=2") == ([], {})
    assert before_all[0] == []
    assert page_at(world, before_all[1]["next"]) == (list(range(10)), {})


WRONG = [
    *((f"limit={text}", "limit") for text in ("0", "-1", "ten", "", "2147483648", "1.5")),
    *((f"after={text}", "after") for text in ("x", ID_MAX + 1)),
    *((f"sort={text}", "sort") for text in ("-name", "", "id,-id")),
    *(("order=x", "id, -id or name"), ("order=id&sort=name", "another spelling of `sort`")),
    *(("sort=name&before=1", "read forwards"), ("sort=name&after=1", "needs `from`")),
    *(("from=a", "sort=name"), (f"sort=name&from={'x' * 101}", "at most 100")),
    *(("untagged=yes", "true or false"), ("untagged&tag=a", "`tag` must be absent")),
    *(("before=x", "before"), ("q=a&q=b", "q"), ("tag=a&tag=b", "tag")),
    *(("tags=Abies", "tags"), ("Limit=1", "Limit"), ("tag=%ff", "UTF-8")),
    ("&".join(f"p{number}=1" for number in range(20)), "at most 10"),
    ("x" * 100, "x" * 40 + "..."),
    (f"q={'×' * 100}x", "100"),
    # The message is one line, whatever it quotes.
    *((f"{name}=1%0A%0D2", name[:1]) for name in ("limit", "after", "sort", "a%0Ab")),
]
WRONG_OF_TAGS = [
    *(("limit=0", "limit"), ("sort=plants", "tag or -plants"), (f"q={'x' * 101}", "at most 100")),
    *((f"after={quote(text)}", "after") for text in ("", "5", "x.a", f"1.{'a' * 201}")),
    *(("tag=a", "tag"), ("before=1", "before")),
]


@pytest.mark.parametrize(
    ("path", "named"),
    [
        *((f"/plants?{query}", named) for query, named in WRONG),
        *((f"/tags?{query}", named) for query, named in WRONG_OF_TAGS),
    ],
)
def test_a_parameter_that_is_wrong_unknown_or_repeated_is_400_and_named(
    unchanged: World, path: str, named: str
) -> None:
    answer = unchanged.get(path)

    assert_error(answer, 400, ErrorCode.INVALID_PARAMETER, named)
    assert len(answer.json()["message"].splitlines()) == 1


def test_a_search_may_have_100_characters(world: World) -> None:
    assert world.get(f"/plants?q={'×' * 99}x").status_code == 200


@pytest.mark.parametrize(
    ("query", "prefer", "total", "applied"),
    [
        ("limit=1", "count=exact", COUNT_MAX + 2, "count=exact"),
        ("after=5000&limit=1", 'COUNT="exact"; x', COUNT_MAX + 2, "count=exact"),
        ("tag=t&limit=1", "count=exact", COUNT_MAX, "count=at-least"),
        ("q=ros&limit=1", "count=exact", COUNT_MAX, "count=at-least"),
        ("tag=u&limit=1", "count=exact", 1, "count=exact"),
        ("q=-", "x, count=exact, y=z", 0, "count=exact"),
        ("limit=1", "count=none, count=exact", None, None),
        ("limit=1", 'x="a, count=exact, b"', None, None),
    ],
)
def test_a_page_has_the_total_if_the_client_prefers_it(
    full: World, query: str, prefer: str, total: int | None, applied: str | None
) -> None:
    answer = full.get(f"/plants?{query}", Prefer=prefer)

    told = answer.headers.get("Total-Count"), answer.headers.get("Preference-Applied")
    assert told == (None if total is None else f"{total}", applied)


@pytest.fixture(scope="module")
def full() -> Any:
    with World() as world:
        world.put_in(*(NewPlant(id_, "rosa", "t") for id_ in range(COUNT_MAX + 1)))
        world.put_in(NewPlant(-1, "acer", "u"))
        yield world


@pytest.mark.parametrize("path", ["/plants?limit=1", "/plants?q=abies&sort=name", "/tags?limit=1"])
def test_head_of_a_page_has_no_field_that_its_content_determines_and_reads_no_page(
    world: World, path: str
) -> None:
    world.put_in(FIR, NewPlant(4, "Abies alba", "Fir"))
    fields = {"Prefer": "count=exact"}
    page = world.send("GET", path, fields=fields)
    world.store.fail(ZeroDivisionError(), "list_plants")
    world.store.fail(ZeroDivisionError(), "list_tags")

    answer = world.send("HEAD", path, fields=fields)

    assert (page.status_code, answer.status_code, answer.content) == (200, 200, b"")
    assert answer.headers["Content-Type"] == page.headers["Content-Type"]
    assert not {"link", "total-count", "content-length"} & set(answer.headers)
    assert world.send("HEAD", f"{path}&x=1").status_code == 400
    world.store.fail(StoreUnavailableError("disk I/O error"), "find_plants")
    assert world.send("HEAD", path).status_code == 503


# The tags with the numbers of their plants: `GET /tags`.

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


def test_one_count_of_tags_runs_at_a_time_and_those_who_wait_share_the_next(world: World) -> None:
    gate = world.store.before["list_tags"] = Gate()

    async def ask() -> list[int]:
        first = asyncio.ensure_future(world.sending("GET", "/tags"))
        await asyncio.to_thread(gate.entered.acquire)
        others = [asyncio.ensure_future(world.sending("GET", "/tags")) for _ in range(5)]
        await until(lambda: world.parts.reader.waiting == 6)
        gate.let_go.release(6)
        return [answer.status_code for answer in await asyncio.gather(first, *others)]

    assert world.run(ask()) == [200] * 6
    assert gate.asked == [(TagListing(),)] * 2
