"""The operations on all plants: `/plants`."""

from typing import Final

from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.compression import Compressor
from plantstore.api.limits import read_json_body
from plantstore.api.listings import (
    LISTING_PARAMETERS,
    describe_page,
    parse_page_request,
    wants_total,
)
from plantstore.api.parameters import NO_PARAMETERS, read_query
from plantstore.changes import Outcome
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import IdTakenError
from plantstore.plants import (
    parse_new_plant,
    render_plant,
    render_stored_plants,
)

# An attribute of an Enum class is looked up slowly before Python 3.12.
_ID_TAKEN: Final = Outcome.ID_TAKEN


class Plants:
    """`/plants`: creates plants, and lists them."""

    def __init__(
        self, *, gate: Gate, writer: GroupCommit, reader: GroupRead, compressor: Compressor
    ) -> None:
        self._gate = gate
        self._writer = writer
        self._reader = reader
        self._compressor = compressor

    async def on_post(self, req: Request, resp: Response) -> None:
        """Store a plant: 200 once it is on disk, and again 200 for the same plant."""
        await self._gate.authorize(req, "plants:create")
        read_query(req, NO_PARAMETERS)
        plant = parse_new_plant(await read_json_body(req))
        if await self._writer.submit(plant) is _ID_TAKEN:
            raise IdTakenError(plant.id)
        resp.data = render_plant(plant)

    async def on_get(self, req: Request, resp: Response) -> None:
        """List plants in order of id, and link to other pages."""
        await self._gate.authorize(req, "plants:read")
        parameters = read_query(req, LISTING_PARAMETERS)
        request = parse_page_request(parameters, has_total=wants_total(req))
        page = await self._reader.list_plants(request.listing)
        plants = describe_page(resp, request, page)
        await self._compressor.answer(req, resp, render_stored_plants(plants))

    on_head = on_get
