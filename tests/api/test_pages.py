"""The files of the page and of the reference, and the header fields that they are sent with."""

import re
from importlib import resources

import httpx
import pytest

from plantstore.api.pages import Assets, Pages
from plantstore.errors import ErrorCode
from support.world import World, assert_error, run

DOCUMENTS = ("/", "/docs")


def assert_nothing_else_may_happen(answer: httpx.Response) -> None:
    """Assert that a browser lets no other site frame or load the response."""
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_may_load_only_from_the_service_and_run_no_inline_code(path: str) -> None:
    async def test(world: World) -> None:
        answer = await world.client.get(path)

        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert_nothing_else_may_happen(answer)
        policy = dict(
            directive.split(maxsplit=1)
            for directive in answer.headers["Content-Security-Policy"].split("; ")
        )
        assert policy["default-src"] == "'none'"
        assert policy["frame-ancestors"] == "'none'"
        assert policy["base-uri"] == policy["form-action"] == "'none'"
        assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
        assert "<script>" not in answer.text
        assert not re.search(r" (on\w+|style)=", answer.text)

    run(test, World(page=True))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_files_of_a_document_may_be_cached_forever(path: str) -> None:
    async def test(world: World) -> None:
        document = (await world.client.get(path)).text
        files = set(re.findall(r'(?:href|src)="(assets/[^"]+)"', document))

        assert len(files) >= 3
        for file in files:
            answer = await world.client.get(file)
            assert answer.status_code == 200
            assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert_nothing_else_may_happen(answer)

    run(test, World(page=True))


def test_the_page_preloads_each_of_its_modules() -> None:
    web = resources.files("plantstore.web")
    folders = [web / name for name in ("page", "preact", "htm")]
    files = {file.name for folder in folders for file in folder.iterdir()}

    document = (web / "page" / "index.html").read_text(encoding="utf-8")

    loaded = re.findall(r'"{assets}/([\w.]+js)"', document)
    assert sorted(loaded) == sorted(file for file in files if file.endswith("js"))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_revalidated_and_sent_only_if_it_changed(path: str) -> None:
    async def test(world: World) -> None:
        first = await world.client.get(path)

        again = await world.client.get(path, headers={"If-None-Match": first.headers["ETag"]})
        other = await world.client.get(path, headers={"If-None-Match": '"another"'})

        assert first.headers["Cache-Control"] == "no-cache"
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == first.headers["ETag"]
        assert (other.status_code, other.content) == (200, first.content)

    run(test, World(page=True))


def test_the_url_of_the_files_changes_if_one_of_them_changes() -> None:
    pages, others = Pages(), Pages()
    files = dict(others.assets.files)

    files["app.js"] = bytes(reversed(files["app.js"]))

    assert others.assets.digest == pages.assets.digest
    assert Assets(files).digest != pages.assets.digest


@pytest.mark.parametrize("file", ["assets/0000000000000000/app.js", "{assets}/passwd", "{assets}/"])
def test_an_unknown_file_is_404_with_an_error_record(file: str) -> None:
    pages = Pages()

    async def test(world: World) -> None:
        answer = await world.client.get(f"/{file.format(assets=f'assets/{pages.assets.digest}')}")

        assert_error(answer, 404, ErrorCode.NOT_FOUND)

    run(test, World(page=True))


def test_without_pages_their_urls_are_404() -> None:
    pages = Pages()

    async def test(world: World) -> None:
        for path in (*DOCUMENTS, f"/assets/{pages.assets.digest}/app.js"):
            assert_error(await world.client.get(path), 404, ErrorCode.NOT_FOUND)

    run(test)


def test_a_page_supports_head_and_refuses_other_methods() -> None:
    async def test(world: World) -> None:
        full = await world.client.get("/", headers={"Accept-Encoding": "identity"})
        head = await world.client.head("/", headers={"Accept-Encoding": "identity"})
        post = await world.client.post("/")

        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["Content-Length"] == str(len(full.content))
        assert_error(post, 405, ErrorCode.METHOD_NOT_ALLOWED)

    run(test, World(page=True))


def test_all_files_share_one_route_and_each_document_has_its_own() -> None:
    pages = Pages()

    async def test(world: World) -> None:
        await world.client.get("/")
        await world.client.get(f"/assets/{pages.assets.digest}/app.js")
        await world.client.get("/assets/other/app.js")

        routes = [answer.route for answer in world.answers]
        assert routes == ["/", "/assets/{digest}/{name}", "/assets/{digest}/{name}"]

    run(test, World(page=True))
