"""The operations on plants."""

from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.limits import read_json_body
from plantstore.errors import ErrorCode, RequestError
from plantstore.plants import parse_new_plant, render_plant
from plantstore.store import Outcome
from plantstore.writer import GroupCommit


class Plants:
    """`/plants`."""

    def __init__(self, gate: Gate, writer: GroupCommit, body_bytes_max: int) -> None:
        self._gate = gate
        self._writer = writer
        self._body_bytes_max = body_bytes_max

    async def on_post(self, req: Request, resp: Response) -> None:
        """Store a plant: 200 once it is on disk, and 200 again for the same record."""
        await self._gate.authorize(req, "plants:create")
        plant = parse_new_plant(await read_json_body(req, self._body_bytes_max))
        if await self._writer.submit(plant) is Outcome.ID_TAKEN:
            raise RequestError(
                ErrorCode.ID_TAKEN,
                f"Another plant is stored under this id, expected a free one, "
                f"got {plant.id} - at `$.id`",
            )
        resp.data = render_plant(plant)
