"""GET /plants and GET /plants/{id}, tested without a socket: every status, and when it is sent."""

import json
from typing import Any
from urllib.parse import quote, urljoin

import pytest

from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import ReadFailed
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.store import Store
from support.world import World, assert_error, run

FIR = NewPlant(2, "Abies balsamea (L.) Mill.", "Abies")
ROSE = NewPlant(-7, "Rosa × damascena")
UNTITLED = NewPlant(3, "", "")


def record(plant: NewPlant) -> dict[str, Any]:
    tag = {} if plant.tag is None else {"tag": plant.tag}
    return {"id": plant.id, "name": plant.name, **tag}


@pytest.mark.parametrize("plant", [FIR, ROSE, UNTITLED])
def test_a_plant_is_returned_with_its_id_and_with_its_tag_if_it_has_one(plant: NewPlant) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR, ROSE, UNTITLED)
        answer = await world.send("GET", f"/plants/{plant.id}")

        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json() == record(plant)

    run(test)


def test_a_missing_plant_is_404_with_its_own_error_number() -> None:
    async def test(world: World) -> None:
        answer = await world.send("GET", "/plants/1")
        assert_error(answer, 404, ErrorCode.NO_SUCH_PLANT)
        assert "1" in answer.json()["message"]

    run(test)


@pytest.mark.parametrize(
    "text", ["x", "", "1.5", "0x1", "007", "+1", " 1", "1_0", "1e", "٣", "null", str(ID_MAX + 1)]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_a_path_whose_id_is_no_int64_is_400(method: str, text: str) -> None:
    async def test(world: World) -> None:
        answer = await world.send(method, f"/plants/{quote(text)}", b'{"name": "a"}')
        assert answer.status_code == 400
        if method != "HEAD":
            assert_error(answer, 400, ErrorCode.INVALID_PARAMETER)

    run(test)


@pytest.mark.parametrize("id_", [ID_MIN, 2**53 + 1, ID_MAX])
def test_every_int64_is_a_valid_id_and_is_read_exactly(store: Store, id_: int) -> None:
    async def test(world: World) -> None:
        world.put_in(NewPlant(id_, "a"))
        for text in (f"{id_}", f"{id_}.0"):
            assert (await world.send("GET", f"/plants/{text}")).json()["id"] == id_

    run(test, World(store))


def test_plants_are_listed_in_order_of_id_as_a_bare_array() -> None:
    async def test(world: World) -> None:
        assert (await world.send("GET", "/plants")).json() == []
        world.put_in(FIR, ROSE, UNTITLED)
        answer = await world.send("GET", "/plants")

        assert answer.status_code == 200
        assert answer.json() == [record(ROSE), record(FIR), record(UNTITLED)]
        assert "Link" not in answer.headers

    run(test)


@pytest.mark.parametrize("query", ["limit=2", "limit=2&tag=" + quote("a&b=×, c")])
def test_following_the_links_shows_every_plant_once(store: Store, query: str) -> None:
    async def test(world: World) -> None:
        tag = "a&b=×, c"
        plants = [NewPlant(id_, "a", tag) for id_ in (ID_MIN, -1, 0, 1, 5, 9, ID_MAX)]
        world.put_in(*plants)
        seen, pages = [], 0
        path = f"/plants?{query}"
        while path:
            answer = await world.send("GET", path)
            seen += answer.json()
            pages += 1
            links = answer.links
            path = urljoin("/plants", links["next"]["url"]) if "next" in links else ""
            assert path.count("limit=2") == bool(path), "the other parameters are kept"

        assert seen == [record(plant) for plant in plants]
        assert pages == 4

    run(test, World(store))


def test_the_parameters_after_and_limit_select_a_page(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(*(NewPlant(id_, "a") for id_ in range(1, 1503)))

        async def ids(query: str) -> list[int]:
            answer = await world.send("GET", f"/plants?{query}")
            return [plant["id"] for plant in answer.json()]

        assert await ids("") == list(range(1, 101))
        assert await ids("limit=1&after=7") == [8]
        assert await ids("limit=1001") == list(range(1, 1001))
        assert await ids("limit=2147483647") == list(range(1, 1001))
        assert await ids("after=1500") == [1501, 1502]
        assert await ids("after=1502") == []
        assert await ids(f"after={ID_MAX}") == []
        assert await ids(f"after={ID_MIN}&limit=1") == [1]

    run(test, World(store))


def test_a_tag_filters_exactly_and_an_empty_tag_is_a_tag(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(
            *(NewPlant(id_, "a", tag) for id_, tag in enumerate(["Abies", "abies", "", None, "x"]))
        )

        async def ids(tag: str) -> list[int]:
            answer = await world.send("GET", f"/plants?tag={tag}")
            return [plant["id"] for plant in answer.json()]

        assert await ids("Abies") == [0]
        assert await ids("") == [2]
        assert await ids("Abi%25") == []
        assert await ids("%00") == []

    run(test, World(store))


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=", "limit"),
        ("limit=2147483648", "limit"),
        ("limit=1.5", "limit"),
        ("after=x", "after"),
        (f"after={ID_MAX + 1}", "after"),
        ("tags=Abies", "tags"),
        ("Limit=1", "Limit"),
        ("tag=a&tag=b", "tag"),
        ("tag=%ff", "UTF-8"),
        ("&".join(f"p{number}=1" for number in range(20)), "at most 10"),
        ("x" * 100, "x" * 40 + "..."),
    ],
)
def test_a_parameter_that_is_wrong_unknown_or_repeated_is_400_and_named(
    query: str, named: str
) -> None:
    async def test(world: World) -> None:
        answer = await world.send("GET", f"/plants?{query}")
        assert_error(answer, 400, ErrorCode.INVALID_PARAMETER)
        assert named in answer.json()["message"]

    run(test)


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
def test_requests_for_one_plant_refuse_query_parameters(method: str) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        answer = await world.send(method, "/plants/2?tag=Abies", b'{"name": "a"}')
        assert answer.status_code == 400
        assert world.store.plants == {2: FIR}

    run(test)


@pytest.mark.parametrize("path", ["/plants", "/plants?limit=1", "/plants/2", "/plants/1"])
def test_head_has_the_status_and_the_fields_of_get(path: str) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR, ROSE)
        head, get = await world.send("HEAD", path), await world.send("GET", path)
        assert head.status_code == get.status_code
        assert head.headers == get.headers

    run(test)


@pytest.mark.parametrize("path", ["/plants", "/plants/2"])
def test_reading_needs_the_scope_plants_read(path: str) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        reader = world.add_token("reader", "plants:read")
        others = world.add_token("others", "plants:create", "plants:update", "plants:delete")
        assert (await world.send("GET", path, token=reader)).status_code == 200
        refused = await world.send("GET", path, token=others)
        assert_error(refused, 403, ErrorCode.SCOPE_MISSING)
        assert 'scope="plants:read"' in refused.headers["WWW-Authenticate"]
        assert_error(await world.client.get(path), 401, ErrorCode.TOKEN_MISSING)

    run(test)


def test_while_plants_cannot_be_read_the_response_is_503_and_afterwards_200() -> None:
    error = StoreUnavailableError("The database cannot be read: disk I/O error")

    async def test(world: World) -> None:
        world.store.read_failure = error
        answer = await world.send("GET", "/plants")
        assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
        assert answer.headers["Retry-After"] == "1"
        world.store.read_failure = None
        assert (await world.send("GET", "/plants")).status_code == 200

    assert ReadFailed(error, 1) in run(test).events


def test_when_too_many_reads_wait_the_response_is_503_and_creates_continue() -> None:
    async def test(world: World) -> None:
        answer = await world.send("GET", "/plants/1")
        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert answer.headers["Retry-After"] in {"1", "2", "3", "4", "5"}
        assert (await world.post()).status_code == 200

    run(test, World(waiting_reads_max=0))


def test_every_string_is_returned_as_it_was_stored(store: Store) -> None:
    names = ['"', "\\", "\n\r\t\x01\x7f", "×", "🌱", "\u2028\ufeff", "</script>", "'; DROP TABLE"]

    async def test(world: World) -> None:
        for id_, name in enumerate(names):
            body = json.dumps({"id": id_, "name": name, "tag": name}).encode()
            assert (await world.post(body)).status_code == 200
        listed = (await world.send("GET", "/plants")).json()
        assert [(plant["name"], plant["tag"]) for plant in listed] == [(n, n) for n in names]

    run(test, World(store))
