"""The operations on all plants: `/plants`."""

from typing import Final

from falcon import MEDIA_JSON
from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.compression import Compressor
from plantstore.api.exports import Exports, export_type
from plantstore.api.imports import Imports, import_type
from plantstore.api.limits import read_json_body
from plantstore.api.listings import (
    EXPORT_PARAMETERS,
    LISTING_PARAMETERS,
    describe_page,
    parse_page_request,
    parse_words,
    wants_total,
)
from plantstore.api.parameters import NO_PARAMETERS, read_query
from plantstore.changes import Outcome
from plantstore.errors import IdTakenError
from plantstore.formats import MEDIA_TYPES
from plantstore.listings import Listing
from plantstore.plants import (
    parse_new_plant,
    render_plant,
    render_stored_plants,
)
from plantstore.reader import GroupRead
from plantstore.writer import GroupCommit

# Accept fields that ask for no file. Most clients send one of them.
_ANY: Final = frozenset({"*/*", MEDIA_JSON})

# The media types of the body of a create.
_MEDIA_TYPES: Final = (MEDIA_JSON, *MEDIA_TYPES)

# An attribute of an Enum class is looked up slowly before Python 3.12.
_ID_TAKEN: Final = Outcome.ID_TAKEN


class Plants:
    """`/plants`: creates plants, lists them, imports and exports them."""

    def __init__(
        self,
        *,
        gate: Gate,
        writer: GroupCommit,
        reader: GroupRead,
        compressor: Compressor,
        imports: Imports,
        exports: Exports,
        body_bytes_max: int,
    ) -> None:
        self._gate = gate
        self._writer = writer
        self._reader = reader
        self._compressor = compressor
        self._imports = imports
        self._exports = exports
        self._body_bytes_max = body_bytes_max

    async def on_post(self, req: Request, resp: Response) -> None:
        """Store a plant, or many: 200 once they are on disk, and again 200 for the same plants."""
        content_type = req.content_type
        if content_type != MEDIA_JSON and (media_type := import_type(content_type)):
            await self._imports.run(req, resp, media_type)
            return
        await self._gate.authorize(req, "plants:create")
        read_query(req, NO_PARAMETERS)
        plant = parse_new_plant(await read_json_body(req, self._body_bytes_max, _MEDIA_TYPES))
        if await self._writer.submit(plant) is _ID_TAKEN:
            raise IdTakenError(plant.id)
        resp.data = render_plant(plant)

    async def on_get(self, req: Request, resp: Response) -> None:
        """List plants in order of id, and link to other pages; or export all of them."""
        await self._gate.authorize(req, "plants:read")
        if (accept := req.accept) not in _ANY and (media_type := export_type(accept)):
            parameters = read_query(req, EXPORT_PARAMETERS)
            listing = Listing(tag=parameters.get("tag"), words=parse_words(parameters))
            await self._exports.run(req, resp, media_type, listing)
            return
        parameters = read_query(req, LISTING_PARAMETERS)
        request = parse_page_request(parameters, has_total=wants_total(req))
        page = await self._reader.list_plants(request.listing)
        resp.append_header("Vary", "Accept")
        plants = describe_page(resp, request, page)
        await self._compressor.answer(req, resp, render_stored_plants(plants))

    on_head = on_get
