"""OPTIONS, the redirect to the reference, and unknown query parameters."""

import pytest

from plantstore.errors import ErrorCode
from support.world import JSON, VALID, World, assert_error, run


@pytest.mark.parametrize(
    "path",
    ["/plants", "/plants/1", "/openapi.json", "/healthz", "/readyz", "/metrics", "/docs", "/token"],
)
def test_options_returns_the_methods_without_a_body_or_content_type(path: str) -> None:
    async def test(world: World) -> None:
        answer = await world.client.options(path)

        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["Content-Length"] == "0"
        assert "GET" in answer.headers["Allow"]
        assert "Content-Type" not in answer.headers

    run(test, World(page=True))


def test_options_of_a_plant_lists_the_same_methods_as_405_and_the_media_type_of_patches() -> None:
    async def test(world: World) -> None:
        options = await world.client.options("/plants/1")
        refused = await world.send("POST", "/plants/1")

        assert options.headers["Accept-Patch"] == "application/merge-patch+json"
        assert refused.status_code == 405
        assert set(options.headers["Allow"].split(", ")) == set(
            refused.headers["Allow"].split(", ")
        )

    run(test)


def test_options_of_an_unknown_path_is_404_with_an_error_record() -> None:
    async def test(world: World) -> None:
        assert_error(await world.client.options("/none"), 404, ErrorCode.NOT_FOUND)

    run(test)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_reference_with_a_trailing_slash_redirects_to_the_one_without(method: str) -> None:
    async def test(world: World) -> None:
        answer = await world.client.request(method, "/docs/")

        assert (answer.status_code, answer.content) == (308, b"")
        # A relative URL is also valid under the prefix of a proxy.
        assert answer.headers["Location"] == "../docs"
        assert (await world.client.request(method, "/docs/", follow_redirects=True)).url.path == (
            "/docs"
        )
        assert [(each.route, each.status) for each in world.answers] == [
            *(("/docs/", 308), ("/docs/", 308), ("/docs", 200)),
        ]

    run(test, World(page=True))


def test_without_pages_there_is_no_redirect_to_the_reference() -> None:
    async def test(world: World) -> None:
        assert_error(await world.client.get("/docs/"), 404, ErrorCode.NOT_FOUND)

    run(test)


def test_a_create_refuses_a_query_parameter_and_stores_nothing() -> None:
    async def test(world: World) -> None:
        headers = JSON | {"Authorization": f"Bearer {world.token}"}
        answer = await world.client.post("/plants?x=1", content=VALID, headers=headers)
        other = await world.send("GET", "/plants/1?x=1")

        assert_error(answer, 400, ErrorCode.INVALID_PARAMETER)
        assert answer.json() == other.json()
        assert world.store.plants == {}
        without_token = await world.client.post("/plants?x=1", content=VALID)
        assert_error(without_token, 401, ErrorCode.TOKEN_MISSING)

    run(test)
