"""Large responses are compressed for the clients that accept it."""

import gzip
import re

import httpx
import pytest

from plantstore.api.negotiation import COMPRESSED_BYTES_MIN
from plantstore.api.pages import Pages
from plantstore.plants import NewPlant
from support.world import METRICS, World, run

LARGE = [NewPlant(id_, f"Abies {id_}", "Abies") for id_ in range(1000)]
HUGE = NewPlant(5000, "Rosa " * COMPRESSED_BYTES_MIN)


async def ask(
    world: World, path: str, accept_encoding: str | None = "gzip", method: str = "GET"
) -> httpx.Response:
    """Send a request; return the response with its body as it was sent, not decompressed."""
    headers = {"Authorization": f"Bearer {world.token}"}
    request = world.client.build_request(method, path, headers=headers)
    del request.headers["Accept-Encoding"]
    if accept_encoding is not None:
        request.headers["Accept-Encoding"] = accept_encoding
    answer = await world.client.send(request, stream=True)
    answer._content = b"".join([part async for part in answer.aiter_raw()])  # noqa: SLF001
    return answer


def paths(pages: Pages) -> list[str]:
    """Return the paths of the large responses."""
    names = ("page.css", "catalogue.js", "preact.mjs", "swagger-ui-bundle.js")
    files = [f"/assets/{pages.assets.digest}/{name}" for name in names]
    return ["/plants?limit=1000", "/openapi.json", *files]


def test_a_large_response_is_compressed_on_request_and_varies_by_accept_encoding() -> None:
    pages = Pages()
    sizes: dict[str, tuple[int, int]] = {}

    async def test(world: World) -> None:
        world.put_in(*LARGE, HUGE)
        for path in paths(pages):
            plain, packed = await ask(world, path, None), await ask(world, path)

            assert packed.status_code == 200
            assert packed.headers["Content-Encoding"] == "gzip"
            assert gzip.decompress(packed.content) == plain.content
            assert "Content-Encoding" not in plain.headers
            for answer in (plain, packed):
                assert answer.headers["Vary"] == "Accept-Encoding"
                assert answer.headers["Content-Length"] == str(len(answer.content))
            assert packed.headers["Content-Type"] == plain.headers["Content-Type"]
            sizes[path] = (len(plain.content), len(packed.content))

    run(test, World(page=True))

    assert all(packed < plain / 2 for plain, packed in sizes.values()), sizes
    assert sum(packed for _, packed in sizes.values()) < 500_000


def test_small_responses_and_errors_are_not_compressed() -> None:
    async def test(world: World) -> None:
        world.put_in(NewPlant(1, "a"))
        plants = ("/plants", "/plants/1", "/plants?x=1")
        for path in (*plants, "/", "/docs", "/healthz", "/metrics", "/none"):
            answer = await ask(world, path)

            assert "Content-Encoding" not in answer.headers, path
            assert len(answer.content) < COMPRESSED_BYTES_MIN

    run(test, World(page=True))


def test_a_large_plant_is_not_compressed_so_it_has_one_etag() -> None:
    async def test(world: World) -> None:
        world.put_in(HUGE)
        plain, packed = await ask(world, "/plants/5000", None), await ask(world, "/plants/5000")

        assert len(packed.content) > COMPRESSED_BYTES_MIN
        assert plain.headers == packed.headers
        assert "ETag" in plain.headers
        assert not {"Content-Encoding", "Vary"} & set(plain.headers)

    run(test)


def test_the_response_to_a_create_is_not_compressed() -> None:
    async def test(world: World) -> None:
        body = b'{"id": 1, "name": "%b"}' % (b"Rosa " * 300)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {world.token}"}
        answer = await world.post(body, headers | {"Accept-Encoding": "gzip"})

        assert answer.status_code == 200
        assert "Content-Encoding" not in answer.headers

    run(test)


def test_head_has_the_fields_of_get_with_and_without_compression() -> None:
    pages = Pages()

    async def test(world: World) -> None:
        world.put_in(*LARGE, HUGE)
        for path in (*paths(pages), "/", "/docs", "/metrics"):
            for accepted in ("gzip", "identity"):
                head = await ask(world, path, accepted, "HEAD")
                get = await ask(world, path, accepted)

                assert head.headers == get.headers
                assert head.content == b""

    run(test, World(page=True))


def test_large_metrics_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"# HELP plantstore_x y\n" * COMPRESSED_BYTES_MIN
    monkeypatch.setitem(METRICS, next(iter(METRICS)), lambda: text)

    async def test(world: World) -> None:
        answer = await ask(world, "/metrics")

        assert answer.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(answer.content) == text

    run(test)


def test_no_compressed_response_has_the_token_or_a_field_of_its_request() -> None:
    """Otherwise the compressed size could reveal a secret to an attacker (BREACH)."""
    pages = Pages()
    mark = "plst_" + "b" * 36

    async def test(world: World) -> None:
        world.put_in(*LARGE, HUGE)
        for path in paths(pages):
            headers = {
                "Authorization": f"Bearer {world.token}",
                "Cookie": mark,
                "Referer": mark,
                "User-Agent": mark,
                "Accept-Encoding": "gzip",
            }
            query = "&tag=Abies" if path.startswith("/plants?") else ""
            answer = await world.client.get(path + query, headers=headers)

            assert answer.headers["Content-Encoding"] == "gzip"
            assert not re.search(f"{mark}|{world.token}", answer.text)

    run(test, World(page=True))
