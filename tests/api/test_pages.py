"""The files of the page and of the reference: their header fields, and their compression."""

import asyncio
import gzip
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from plantstore.api.static_files import COMPRESSED_BYTES_MIN, Assets, accepts_gzip, load_web
from plantstore.errors import ErrorCode
from plantstore.messages import Request, Response
from plantstore.plants import NewPlant
from support.world import World, assert_error

ASSETS = load_web().assets
DOCUMENTS = ("/", "/docs")
# The paths of large files.
LARGE = [
    "/openapi.json",
    *(
        f"/assets/{ASSETS.digest}/{name}"
        for name in ("page.css", "catalogue.js", "preact.mjs", "swagger-ui-bundle.js")
    ),
]


@pytest.fixture(scope="module")
def pages() -> Iterator[World]:
    """Return an application with pages, and a plant that is larger than small files."""
    with World() as world:
        world.put_in(NewPlant(1, "Rosa " * COMPRESSED_BYTES_MIN))
        yield world


def assert_nothing_else_may_happen(answer: httpx.Response) -> None:
    """Assert that a browser lets no other site frame or load the response."""
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"


@pytest.mark.parametrize("accepted", ["gzip", ""])
def test_files_are_shared_by_all_clients_that_read_them(accepted: str) -> None:
    web, request = load_web(), Request("GET", "/", fields={"accept-encoding": accepted})

    async def show() -> list[Response]:
        files = (web.document, *web.assets.files.values())
        pages = [await page.show(request) for page in (web.page, web.reference)]
        return pages + [await file.show(request) for file in files]

    first, second = asyncio.run(show()), asyncio.run(show())

    assert all(response.is_shared for response in first)
    assert [id(response.body) for response in first] == [id(response.body) for response in second]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_may_load_only_from_the_service(pages: World, path: str) -> None:
    answer = pages.ask("GET", path)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert_nothing_else_may_happen(answer)
    policy = dict(
        directive.split(maxsplit=1)
        for directive in answer.headers["Content-Security-Policy"].split("; ")
    )
    assert {policy[name] for name in ("default-src", "frame-ancestors", "base-uri")} == {"'none'"}
    assert policy["form-action"] == "'none'"
    assert {policy[f"{kind}-src"] for kind in ("script", "style", "connect")} == {"'self'"}
    assert "<script>" not in answer.text
    assert not re.search(r" (on\w+|style)=", answer.text)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_files_of_a_document_may_be_cached_forever(pages: World, path: str) -> None:
    files = set(re.findall(r'(?:href|src)="(assets/[^"]+)"', pages.ask("GET", path).text))

    assert len(files) >= 3
    for file in files:
        answer = pages.ask("GET", file)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Content-Security-Policy"] == "default-src 'none'; script-src 'self'"
        has_charset = answer.headers["Content-Type"].endswith("; charset=utf-8")
        assert has_charset is not file.endswith(".svg")  # XML declares it itself
        assert_nothing_else_may_happen(answer)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_sent_again_only_if_it_changed(pages: World, path: str) -> None:
    first = pages.ask("GET", path)

    etag = first.headers["ETag"]
    behind_a_proxy = f'{etag[:-1]}-gzip"'
    again, through, other, malformed = (
        pages.ask("GET", path, headers={"If-None-Match": tags})
        for tags in (etag, behind_a_proxy, '"another"', "another")
    )

    assert first.headers["Cache-Control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == etag
    assert through.status_code == 304
    assert (other.status_code, other.content) == (200, first.content)
    assert_error(malformed, 400, ErrorCode.BAD_REQUEST)


def test_the_url_of_the_files_changes_if_one_of_them_changes() -> None:
    files: dict[str, Any] = {
        name: asyncio.run(file.show(Request("GET", ""))).body for name, file in ASSETS.files.items()
    }

    same = Assets(files).digest
    files["app.js"] = bytes(reversed(files["app.js"]))

    assert same == ASSETS.digest
    assert Assets(files).digest != ASSETS.digest


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_reference_with_a_trailing_slash_redirects_to_the_one_without(
    pages: World, method: str
) -> None:
    answer = pages.ask(method, "/docs/")

    assert (answer.status_code, answer.content) == (308, b"")
    # A relative URL is also valid under the prefix of a proxy.
    assert answer.headers["Location"] == "../docs"
    followed = pages.ask(method, "/docs/", follow_redirects=True)
    assert followed.url.path == "/docs"


def test_an_unknown_file_is_404(pages: World) -> None:
    for file in ("0000000000000000/app.js", f"{ASSETS.digest}/passwd", f"{ASSETS.digest}/"):
        assert_error(pages.ask("GET", f"/assets/{file}"), 404, ErrorCode.NOT_FOUND)


def ask(
    world: World, path: str, accept_encoding: str | None = "gzip", method: str = "GET"
) -> tuple[int, dict[str, str], bytes]:
    """Send a request; return status, fields and body of the response, which is not decompressed."""
    fields = {} if accept_encoding is None else {"accept-encoding": accept_encoding}
    return world.run(world.respond(world.request(method, path, **fields)))


@pytest.mark.parametrize(
    ("accept_encoding", "is_accepted"),
    [
        *((each, True) for each in ("GZip", "gzip, deflate, br, zstd", ", gzip,,")),
        *((each, True) for each in ("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip ; Q=0.001")),
        *((each, False) for each in ("", "br, zstd", "gzipped", "gzip;q=0.000", "gzip;q=0, *")),
        # Malformed:
        *((each, False) for each in ("gzip;q=2", "gzip;q=0.1234", "gzip;level=1", "gzip deflate")),
    ],
)
def test_gzip_is_used_if_the_client_names_it_with_a_weight_above_0(
    accept_encoding: str,
    is_accepted: bool,  # noqa: FBT001 (pytest passes it by name)
) -> None:
    request = Request("GET", "/", fields={"accept-encoding": accept_encoding})

    assert accepts_gzip(request) is is_accepted
    assert not accepts_gzip(Request("GET", "/"))


@pytest.mark.parametrize("path", LARGE)
def test_a_large_file_is_compressed_on_request(pages: World, path: str) -> None:
    status, plain, content = ask(pages, path, None)
    status_packed, packed, compressed = ask(pages, path)

    assert (status, status_packed) == (200, 200)
    assert gzip.decompress(compressed) == content
    assert len(compressed) < min(len(content) / 2, 460_000)
    assert packed == plain | {"Content-Encoding": "gzip", "Content-Length": f"{len(compressed)}"}
    assert plain["Content-Length"] == f"{len(content)}"
    assert plain["Vary"] == "Accept-Encoding"
    assert "Content-Encoding" not in plain


@pytest.mark.parametrize(
    "path", ["/plants", "/plants/1", "/plants.csv", "/changes", "/metrics", *DOCUMENTS, "/none"]
)
def test_no_other_response_is_compressed_so_its_size_reveals_nothing_to_an_attacker(
    pages: World, path: str
) -> None:
    _, fields, _ = ask(pages, path)

    assert "Content-Encoding" not in fields
    assert "Accept-Encoding" not in fields.get("Vary", "")


@pytest.mark.parametrize("path", [*LARGE, *DOCUMENTS, "/metrics"])
@pytest.mark.parametrize("accepted", ["gzip", "identity"])
def test_head_has_the_fields_of_get_with_and_without_compression(
    pages: World, path: str, accepted: str
) -> None:
    status, fields, _ = ask(pages, path, accepted)

    assert ask(pages, path, accepted, "HEAD") == (status, fields, b"")
