"""The operations on plants."""

from http import HTTPStatus
from typing import Final

from falcon import MEDIA_JSON
from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.compression import Compressor
from plantstore.api.exports import Exports, export_type
from plantstore.api.imports import Imports, import_type
from plantstore.api.limits import read_json_body
from plantstore.api.parameters import (
    EXPORT_PARAMETERS,
    LISTING_PARAMETERS,
    NO_PARAMETERS,
    next_page,
    parse_id,
    parse_listing,
    read_query,
)
from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import ErrorCode, IdTakenError, RequestError
from plantstore.formats import MEDIA_TYPES
from plantstore.plants import (
    parse_new_plant,
    parse_plant,
    render_plant,
    render_stored_plant,
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
    """`/plants`, and with the suffix `one`, `/plants/{id}`."""

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
        """List plants in order of id, and link to the next page; or export all of them."""
        await self._gate.authorize(req, "plants:read")
        if (accept := req.accept) not in _ANY and (media_type := export_type(accept)):
            parameters = read_query(req, EXPORT_PARAMETERS)
            await self._exports.run(req, resp, media_type, parameters.get("tag"))
            return
        parameters = read_query(req, LISTING_PARAMETERS)
        page = await self._reader.list_plants(parse_listing(parameters))
        resp.append_header("Vary", "Accept")
        if not page.is_last:
            resp.set_header("Link", next_page(parameters, page.plants[-1].id))
        await self._compressor.answer(req, resp, render_stored_plants(page.plants))

    on_head = on_get

    async def on_get_one(self, req: Request, resp: Response, id: str) -> None:
        """Return the plant with this id."""
        await self._gate.authorize(req, "plants:read")
        id_ = _read_id(req, id)
        plant = await self._reader.find_plant(id_)
        if plant is None:
            raise _no_such_plant(id_)
        await self._compressor.answer(req, resp, render_stored_plant(plant))

    on_head_one = on_get_one

    async def on_put_one(self, req: Request, resp: Response, id: str) -> None:
        """Replace the plant with this id: 200 once it is on disk. No plant is created."""
        await self._gate.authorize(req, "plants:update")
        id_ = _read_id(req, id)
        plant = parse_plant(await read_json_body(req, self._body_bytes_max))
        if await self._writer.submit(Replacement(id_, plant)) is Outcome.NO_SUCH_PLANT:
            raise _no_such_plant(id_)
        resp.data = render_plant(plant)

    async def on_delete_one(self, req: Request, resp: Response, id: str) -> None:
        """Delete the plant with this id: 204 once the deletion is on disk."""
        await self._gate.authorize(req, "plants:delete")
        id_ = _read_id(req, id)
        # A body has no meaning here. But until it has arrived, the request may still be refused.
        await req.stream.exhaust()
        if await self._writer.submit(Deletion(id_)) is Outcome.NO_SUCH_PLANT:
            raise _no_such_plant(id_)
        resp.status = HTTPStatus.NO_CONTENT


def _read_id(req: Request, text: str) -> int:
    read_query(req, NO_PARAMETERS)
    return parse_id(text)


def _no_such_plant(id_: int) -> RequestError:
    return RequestError(ErrorCode.NO_SUCH_PLANT, f"No plant is stored under the id {id_}")
