"""Files of plants: `/plants.csv` and `/plants.ndjson`."""

import re
from typing import Final

from falcon.asgi import Request, Response

from plantstore.api.auth import Authenticator
from plantstore.api.exports import Exports
from plantstore.api.imports import Imports
from plantstore.api.parameters import read_query, require_no_coding
from plantstore.api.plants import EXPORT_PARAMETERS, parse_words
from plantstore.commit.imports import Conflict
from plantstore.errors import ErrorCode, RequestError, UnsupportedMediaTypeError, quoted
from plantstore.formats import Format
from plantstore.listings import Listing

IMPORT_PARAMETERS: Final = frozenset({"on-conflict"})

# What programs send that do not know the type of a file: curl sends the first one.
_UNSPECIFIC: Final = frozenset(
    {"application/x-www-form-urlencoded", "application/octet-stream", "text/plain"}
)

# A media type with parameters that contradict nothing (RFC 9110 §8.3.1, RFC 4180 §3).
_MEDIA_TYPE: Final = re.compile(
    r'([!-+\--:<-~]+)[ \t]*(?:;[ \t]*(?:(?:charset=(?:utf-?8|"utf-?8")|header=present)[ \t]*)?)*',
    re.IGNORECASE | re.ASCII,
)


class PlantFile:
    """A file of all plants. GET exports it, and POST imports plants from it.

    Args:
        authenticator: knows the tokens.
        imports: stores the plants of files.
        exports: sends files.
        name: of the file, for a client that saves it.
        form: its format.

    """

    def __init__(
        self,
        authenticator: Authenticator,
        imports: Imports,
        exports: Exports,
        *,
        name: str,
        form: Format,
    ) -> None:
        self._authenticator = authenticator
        self._name = name
        self._format = form
        self._imports = imports
        self._exports = exports

    async def on_get(self, req: Request, resp: Response) -> None:
        """Return all plants, or those of a tag or a search."""
        await self._authenticator.authorize(req, "plants:read")
        parameters = read_query(req, EXPORT_PARAMETERS)
        listing = Listing(tag=parameters.get("tag"), words=parse_words(parameters))
        await self._exports.run(req, resp, self._format, listing)
        resp.set_header("Content-Disposition", f'attachment; filename="{self._name}"')

    on_head = on_get

    async def on_post(self, req: Request, resp: Response) -> None:
        """Store the plants of a file: 200 with the counts of its rows, once all are on disk."""
        await self._authenticator.authorize(req, "plants:create")
        conflict = _parse_conflict(read_query(req, IMPORT_PARAMETERS).get("on-conflict", "refuse"))
        self._require_type(req)
        await self._imports.run(req, resp, self._format, conflict)

    def _require_type(self, req: Request) -> None:
        """Refuse a body that is another kind of file. Its type may also be absent, or unspecific.

        Raises:
            UnsupportedMediaTypeError: it is another kind, or has a content coding.

        """
        form = self._format
        given = req.content_type or ""
        match = _MEDIA_TYPE.fullmatch(given)
        known = {form.media_type, *form.other_media_types, *_UNSPECIFIC}
        if given and (match is None or match[1].lower() not in known):
            message = f"Content-Type must be {form.media_type} or absent, got {quoted(given)}"
            raise UnsupportedMediaTypeError(message, [form.media_type])
        require_no_coding(req, [form.media_type])


def _parse_conflict(text: str) -> Conflict:
    try:
        return Conflict(text)
    except ValueError:
        raise RequestError(
            ErrorCode.INVALID_PARAMETER,
            f"`on-conflict` must be refuse, skip or replace, got {quoted(text)}",
        ) from None
