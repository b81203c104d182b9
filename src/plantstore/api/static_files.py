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
from functools import cache
from http import HTTPStatus
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from plantstore.api.parameters import MEDIA_JSON
from plantstore.changes import hashed_tag, parse_precondition
from plantstore.messages import Request, Response

# The files of the page and of the API reference, and the OpenAPI document.
_WEB: Final = resources.files("plantstore") / "web"


# Minimum size of a compressed file. Smaller ones fit into a few packets anyway.
COMPRESSED_BYTES_MIN: Final = 4 * 1024

# The element `gzip` of Accept-Encoding, with a weight above 0 or without one.
_GZIP: Final = re.compile(
    r"(?:^|,)[ \t]*gzip[ \t]*(?:;[ \t]*q=(?:1(?:\.0{0,3})?|0\.(?!0+(?!\d))\d{1,3})[ \t]*)?(?:,|$)",
    re.IGNORECASE,
)


def accepts_gzip(request: Request) -> bool:
    """Return whether a client names gzip as a coding that it accepts (RFC 9110 §12.5.3)."""
    return _GZIP.search(request.fields.get("accept-encoding", "")) is not None


# A module that another one imports at its start.
_IMPORT: Final = re.compile(rb'^(?:import\b[^;]*|\} )from "\./([\w.]+)";$', re.MULTILINE)


class File:
    """A file that never changes. It is compressed when a client first accepts that.

    Args:
        content: of the file.
        fields: of the responses with it.

    """

    def __init__(self, content: bytes, fields: Mapping[str, str]) -> None:
        self._content = content
        self._fields = fields
        self._compressed: bytes | None = None

    async def show(self, request: Request) -> Response:
        """Respond with the form that the client prefers."""
        fields = {**self._fields, "Vary": "Accept-Encoding"}
        if len(self._content) < COMPRESSED_BYTES_MIN or not accepts_gzip(request):
            return Response(200, fields, self._content, is_shared=True)
        if self._compressed is None:
            self._compressed = await asyncio.to_thread(gzip.compress, self._content, mtime=0)
        fields["Content-Encoding"] = "gzip"
        return Response(200, fields, self._compressed, is_shared=True)


def read_document() -> bytes:
    """Return the OpenAPI 3.1 document, as JSON text."""
    return (_WEB / "openapi.json").read_bytes()


_MEDIA_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "mjs": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

# A document loads everything from this service, has no inline scripts or styles, and cannot be
# framed (https://www.w3.org/TR/CSP3/). On the page, text can never become markup, nor the address
# of a script: the policy `workbook` returns only that of one worker
# (https://www.w3.org/TR/trusted-types/). Swagger UI creates markup, and uses `data:` icons.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
)
_PAGE_POLICY: Final = (
    f"{_POLICY}img-src 'self'; require-trusted-types-for 'script'; trusted-types workbook"
)
_REFERENCE_POLICY: Final = f"{_POLICY}img-src 'self' data:"

# A worker gets the policy of its own file. The one that reads workbooks sends nothing.
_WORKER_POLICY: Final = "default-src 'none'; script-src 'self'"

_SECURITY_FIELDS: Final = {
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Assets:
    """The files that the documents load, `/assets/{digest}/{name}`.

    Args:
        contents: of the files, by name.

    Attributes:
        digest: of all of them.
        files: by name.

    """

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        digest = hashlib.sha256()
        for name, content in sorted(contents.items()):
            digest.update(b"%s %d\n" % (name.encode(), len(content)))
            digest.update(content)
        self.digest = digest.hexdigest()[:16]
        cached = {
            "Cache-Control": "public, max-age=31536000, immutable",
            "Content-Security-Policy": _WORKER_POLICY,
            **_SECURITY_FIELDS,
        }
        self.files = {
            name: File(content, {"Content-Type": _MEDIA_TYPES[_suffix(name)], **cached})
            for name, content in contents.items()
        }


class HTMLPage:
    """A small HTML document at a stable address. It is not compressed, so it has one ETag.

    Args:
        document: the HTML, in which `{assets}` is replaced by the address of the assets.
        assets: the files that it loads.
        policy: its Content-Security-Policy.

    """

    def __init__(self, document: bytes, assets: Assets, policy: str) -> None:
        self._content = document.replace(b"{assets}", f"assets/{assets.digest}".encode())
        self._etag = hashed_tag(self._content)
        self._fields = {
            "Content-Type": _MEDIA_TYPES["html"],
            "Cache-Control": "no-cache",
            "Content-Security-Policy": policy,
            "ETag": self._etag,
            **_SECURITY_FIELDS,
        }

    async def show(self, request: Request) -> Response:
        """Respond with the document, or 304 if the client has it.

        Raises:
            RequestError: BAD_REQUEST, if If-None-Match is malformed.

        """
        condition = parse_precondition(None, request.fields.get("if-none-match"))
        if condition is not None and not condition.none_matches(self._etag):
            return Response(HTTPStatus.NOT_MODIFIED.value, dict(self._fields))
        return Response(200, dict(self._fields), self._content, is_shared=True)


async def redirect_to_reference(_request: Request) -> Response:
    """Redirect `/docs/` to `/docs`."""
    # It is relative, so it is also right if a proxy adds a prefix to the paths of the service.
    return Response(HTTPStatus.PERMANENT_REDIRECT.value, {"Location": "../docs"})


class Web(NamedTuple):
    """What browsers load.

    Attributes:
        page: at `/`.
        reference: at `/docs`.
        document: at `/openapi.json`.
        assets: of the page and the reference.

    """

    page: HTMLPage
    reference: HTMLPage
    document: File
    assets: Assets


@cache
def load_web(*, is_public: bool = False) -> Web:
    """Load the page, the reference, and the files of both.

    Args:
        is_public: whether anyone may read plants. The page then shows them without a token.

    """
    files: dict[str, bytes] = {}
    for folder in _WEB.iterdir():
        if folder.is_dir():
            files |= _read(folder)
    page, reference = files.pop("index.html"), files.pop("reference.html")
    page = page.replace(b"{public-read}", str(is_public).lower().encode())
    page = page.replace(b"{modules}", _preload(files, "app.js"))
    assets = Assets(files)
    return Web(
        HTMLPage(page, assets, _PAGE_POLICY),
        HTMLPage(reference, assets, _REFERENCE_POLICY),
        File(read_document(), {"Content-Type": MEDIA_JSON}),
        assets,
    )


def _preload(files: Mapping[str, bytes], start: str) -> bytes:
    """Return links to the modules that a module imports, so that a browser loads them at once."""
    names = [start]
    for name in names:
        imported: list[bytes] = _IMPORT.findall(files[name])
        names += [each for each in map(bytes.decode, imported) if each not in names]
    links = (f'<link rel="modulepreload" href="{{assets}}/{name}">' for name in names[1:])
    return "\n    ".join(links).encode()


def _read(folder: Traversable) -> dict[str, bytes]:
    files = (file for file in folder.iterdir() if _suffix(file.name) in _MEDIA_TYPES)
    return {file.name: file.read_bytes() for file in files}


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]
