"""The operations on plants: `/plants` and `/plants/{id}`.

Conditions of changes are evaluated in the transaction of the change, by `plantstore.decision`.
"""

from http import HTTPStatus
from typing import Final

from falcon import MEDIA_JSON
from falcon.asgi import Request, Response

from plantstore.api.auth import Authenticator
from plantstore.api.paging import describe_page, read_page_request
from plantstore.api.parameters import MERGE_PATCH, parse_integer, read_json_body, read_query
from plantstore.changes import (
    Conditional,
    Deletion,
    Outcome,
    Patch,
    PlantOutcome,
    Precondition,
    Replacement,
    UnconditionalChange,
    Upsert,
    entity_tag,
    parse_precondition,
)
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ErrorCode, IdTakenError, RequestError
from plantstore.plants import (
    TOO_LARGE,
    NewPlant,
    Plant,
    parse_new_plant,
    parse_patch,
    parse_plant,
    render_plant,
    render_stored_plant,
    render_stored_plants,
)

# An attribute of an Enum class is looked up slowly before Python 3.12.
_ID_TAKEN: Final = Outcome.ID_TAKEN


class Plants:
    """`/plants`: creates plants, and lists them."""

    def __init__(
        self,
        authenticator: Authenticator,
        writer: GroupCommit,
        reader: GroupRead,
    ) -> None:
        self._authenticator = authenticator
        self._writer = writer
        self._reader = reader

    async def on_post(self, req: Request, resp: Response) -> None:
        """Store a plant: 200 once it is on disk, and again 200 for the same plant."""
        await self._authenticator.authorize(req, "plants:create")
        read_query(req)
        plant = parse_new_plant(await read_json_body(req))
        if await self._writer.submit(plant) is _ID_TAKEN:
            raise IdTakenError(plant.id)
        resp.data = render_plant(plant)

    async def on_get(self, req: Request, resp: Response) -> None:
        """List plants in order of id or by name, and link to other pages."""
        await self._authenticator.authorize(req, "plants:read")
        request = read_page_request(req)
        page = await self._reader.list_plants(request.listing)
        resp.data = render_stored_plants(describe_page(resp, request, page))

    on_head = on_get


class OnePlant:
    """`/plants/{id}`: shows, replaces, patches and deletes a plant, or creates it by PUT."""

    def __init__(
        self, authenticator: Authenticator, writer: GroupCommit, reader: GroupRead
    ) -> None:
        self._authenticator = authenticator
        self._writer = writer
        self._reader = reader

    async def on_get(self, req: Request, resp: Response, id: str) -> None:
        """Return the plant with this id."""
        id_, precondition = await self._begin(req, "plants:read", id)
        plant = await self._reader.find_plant(id_)
        if plant is None:
            raise _no_such_plant(id_)
        etag = _set_etag(resp, plant)
        if precondition is not None and not precondition.matches(etag):
            raise _condition_is_false(id_, etag)
        if precondition is not None and not precondition.none_matches(etag):
            resp.status = HTTPStatus.NOT_MODIFIED
            return
        resp.data = render_stored_plant(plant)

    on_head = on_get

    async def on_put(self, req: Request, resp: Response, id: str) -> None:
        """Replace the plant with this id: 200 once it is on disk.

        With `If-None-Match: *`, create it instead: 201.
        """
        creates = req.get_header("If-None-Match") == "*"
        scope = "plants:create" if creates else "plants:update"
        id_, precondition = await self._begin(req, scope, id)
        plant = parse_plant(await read_json_body(req))
        if creates:
            await self._make(Upsert(NewPlant(id_, plant.name, plant.tag)), precondition)
            resp.status = HTTPStatus.CREATED
        else:
            await self._make(Replacement(id_, plant), precondition)
        _set_etag(resp, plant)
        resp.data = render_plant(plant)

    async def on_patch(self, req: Request, resp: Response, id: str) -> None:
        """Change members of the plant with this id: 200 once the plant is on disk."""
        id_, precondition = await self._begin(req, "plants:update", id)
        body = await read_json_body(req, MERGE_PATCH, MEDIA_JSON)
        plant = await self._make(Patch(id_, parse_patch(body)), precondition)
        if plant is not None:
            _set_etag(resp, plant)
            resp.data = render_plant(plant)

    async def on_delete(self, req: Request, resp: Response, id: str) -> None:
        """Delete the plant with this id: 204 once the deletion is on disk."""
        id_, precondition = await self._begin(req, "plants:delete", id)
        # A body has no meaning here. But until it has arrived, the request may still be refused.
        await req.stream.exhaust()
        await self._make(Deletion(id_), precondition)
        resp.status = HTTPStatus.NO_CONTENT

    async def _begin(self, req: Request, scope: str, id_: str) -> tuple[int, Precondition | None]:
        """Check the token and the query; return the id and the condition of the request."""
        await self._authenticator.authorize(req, scope)
        read_query(req)
        condition = parse_precondition(req.get_header("If-Match"), req.get_header("If-None-Match"))
        return parse_integer(id_), condition

    async def _make(
        self, change: UnconditionalChange, precondition: Precondition | None
    ) -> NewPlant | None:
        """Make a change; return the plant afterwards if the result has it.

        Raises:
            RequestError: NO_SUCH_PLANT, BODY_TOO_LARGE or PRECONDITION_FAILED; or as
                `GroupCommit.submit` does.

        """
        result = await self._writer.submit(
            change if precondition is None else Conditional(change, precondition)
        )
        if result is Outcome.NO_SUCH_PLANT:
            raise _no_such_plant(change.id)
        if result is Outcome.TOO_LARGE:
            raise RequestError(ErrorCode.BODY_TOO_LARGE, TOO_LARGE)
        if not isinstance(result, PlantOutcome):
            return None
        plant = result.plant
        if result.outcome is Outcome.PRECONDITION_FAILED:
            etag = None if plant is None else entity_tag(plant.name, plant.tag)
            excludes = precondition is not None and not precondition.none_matches(etag)
            raise _condition_is_false(change.id, etag, is_excluded=excludes)
        return plant


def _set_etag(resp: Response, plant: NewPlant | Plant) -> str:
    etag = entity_tag(plant.name, plant.tag)
    resp.set_header("ETag", etag)
    return etag


def _condition_is_false(id_: int, etag: str | None, *, is_excluded: bool = False) -> RequestError:
    """Return the error for a plant that now has this entity tag, or None if there is no plant.

    If it `is_excluded`, If-None-Match is false, and not If-Match.
    """
    if etag is None:
        found = f"no plant is stored under the id {id_}"
    elif is_excluded:
        found = f"a plant is stored under the id {id_}, and If-None-Match excludes it"
    else:
        found = f"another plant than expected is stored under the id {id_}"
    message = f"The condition is false: {found}"
    fields = None if etag is None else {"ETag": etag}
    return RequestError(ErrorCode.PRECONDITION_FAILED, message, fields)


def _no_such_plant(id_: int) -> RequestError:
    return RequestError(ErrorCode.NO_SUCH_PLANT, f"No plant is stored under the id {id_}")
