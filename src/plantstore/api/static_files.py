"""The page at `/` and the API reference at `/docs`, for browsers.

Both are static files. The address of each asset contains a hash of all assets. So a browser may
cache the assets forever, and never mixes those of two versions.

Files are sent compressed with gzip to clients that accept it (RFC 9110 §8.4.1.3). No other response
is compressed: a proxy can do this. So the size of a compressed response reveals nothing about
plants or tokens.
"""

import asyncio
import gzip
import hashlib
import re
from collections.abc import Mapping
from http import HTTPStatus
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from falcon.asgi import Request, Response

from plantstore.changes import entity_tag, parse_precondition
from plantstore.errors import ErrorCode, RequestError

# The files of the page and of the API reference, and the OpenAPI document.
_WEB: Final = resources.files("plantstore") / "web"


# Minimum size of a compressed file. Smaller ones fit into a few packets anyway.
COMPRESSED_BYTES_MIN: Final = 4 * 1024

# The element `gzip` of Accept-Encoding, with a weight above 0 or without one.
_GZIP: Final = re.compile(
    r"(?:^|,)[ \t]*gzip[ \t]*(?:;[ \t]*q=(?:1(?:\.0{0,3})?|0\.(?!0+(?!\d))\d{1,3})[ \t]*)?(?:,|$)",
    re.IGNORECASE,
)


def accepts_gzip(req: Request) -> bool:
    """Return whether a client names gzip as a coding that it accepts (RFC 9110 §12.5.3)."""
    return _GZIP.search(req.get_header("Accept-Encoding") or "") is not None


class _File:
    """A file that never changes. It is compressed when a client first accepts that."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._compressed: bytes | None = None
        self._lock = asyncio.Lock()

    async def on_get(self, req: Request, resp: Response) -> None:
        """Respond with the form that the client prefers. No token is needed."""
        resp.append_header("Vary", "Accept-Encoding")
        resp.data = self._content
        is_large = len(self._content) >= COMPRESSED_BYTES_MIN
        if is_large and accepts_gzip(req):
            async with self._lock:
                if self._compressed is None:
                    self._compressed = await asyncio.to_thread(
                        gzip.compress, self._content, mtime=0
                    )
            resp.data = self._compressed
            resp.set_header("Content-Encoding", "gzip")

    on_head = on_get


def read_document() -> bytes:
    """Return the OpenAPI 3.1 document, as JSON text."""
    return (_WEB / "openapi.json").read_bytes()


ASSETS_TEMPLATE: Final = "/assets/{digest}/{name}"

_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

# A document loads everything from this service, has no inline scripts or styles, and cannot be
# framed (https://www.w3.org/TR/CSP3/). On the page, text can never become markup
# (https://www.w3.org/TR/trusted-types/). Swagger UI creates markup, and uses `data:` icons.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
)
_PAGE_POLICY: Final = (
    f"{_POLICY}img-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_REFERENCE_POLICY: Final = f"{_POLICY}img-src 'self' data:"

_SECURITY_FIELDS: Final = {
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Assets:
    """`/assets/{digest}/{name}`: the files that the documents load.

    Args:
        files: their contents, by name.

    """

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(b"%s %d\n" % (name.encode(), len(content)))
            digest.update(content)
        self.digest = digest.hexdigest()[:16]
        self._contents = {name: _File(content) for name, content in files.items()}

    async def on_get(self, req: Request, resp: Response, digest: str, name: str) -> None:
        """Respond with a file. No token is needed.

        Raises:
            RequestError: NOT_FOUND.

        """
        content = self._contents.get(name)
        if digest != self.digest or content is None:
            raise RequestError(ErrorCode.NOT_FOUND, "There is no such file")
        resp.content_type = _MEDIA_TYPES[_suffix(name)]
        resp.set_headers(_SECURITY_FIELDS)
        resp.cache_control = ["public", "max-age=31536000", "immutable"]
        await content.on_get(req, resp)

    on_head = on_get


class Page:
    """A small HTML document at a stable address. It is not compressed, so it has one ETag.

    Args:
        document: the HTML, in which `{assets}` is replaced by the address of the assets.
        assets: the files that it loads.
        policy: its Content-Security-Policy.

    """

    def __init__(self, document: bytes, assets: Assets, policy: str) -> None:
        self._content = document.replace(b"{assets}", f"assets/{assets.digest}".encode())
        # As if it were the name of a plant, so that conditions compare it as those of plants.
        self._etag = entity_tag(self._content.decode(), None)
        self._fields = _SECURITY_FIELDS | {"Content-Security-Policy": policy}

    async def on_get(self, req: Request, resp: Response) -> None:
        """Respond with the document, or 304 if the client has it. No token is needed.

        Raises:
            RequestError: BAD_REQUEST, if If-None-Match is malformed.

        """
        condition = parse_precondition(None, req.get_header("If-None-Match"))
        resp.content_type = _MEDIA_TYPES["html"]
        resp.set_headers(self._fields)
        resp.cache_control = ["no-cache"]
        resp.data = self._content
        resp.set_header("ETag", self._etag)
        if condition is not None and not condition.none_matches(self._etag):
            resp.status = HTTPStatus.NOT_MODIFIED

    on_head = on_get


class _Redirect:
    """`/docs/` redirects to `/docs`."""

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Respond with the address of the reference. No token is needed."""
        resp.status = HTTPStatus.PERMANENT_REDIRECT
        # It is relative, so it is also right if a proxy adds a prefix to the paths of the service.
        resp.set_header("Location", "../docs")
        resp.content_type = _MEDIA_TYPES["html"]

    on_head = on_get


def pages(*, is_public: bool = False) -> dict[str, object]:
    """Return what answers at each path: the documents, and the files that they load.

    Args:
        is_public: whether anyone may read plants. The page then shows them without a token.

    """
    files: dict[str, bytes] = {}
    for folder in _WEB.iterdir():
        if folder.is_dir():
            files |= _read(folder)
    page, reference = files.pop("index.html"), files.pop("reference.html")
    page = page.replace(b"{public-read}", str(is_public).lower().encode())
    assets = Assets(files)
    return {
        "/": Page(page, assets, _PAGE_POLICY),
        "/docs": Page(reference, assets, _REFERENCE_POLICY),
        "/docs/": _Redirect(),
        "/openapi.json": _File(read_document()),
        ASSETS_TEMPLATE: assets,
    }


def _read(folder: Traversable) -> dict[str, bytes]:
    files = (file for file in folder.iterdir() if _suffix(file.name) in _MEDIA_TYPES)
    return {file.name: file.read_bytes() for file in files}


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
