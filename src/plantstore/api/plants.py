"""The operations on plants: `/plants` and `/plants/{id}`.

Conditions of changes are evaluated in the transaction of the change, by `plantstore.decision`.
"""

from http import HTTPStatus
from typing import Final

from plantstore.api.paging import describe_page, read_page_request
from plantstore.api.parameters import (
    CHANGE_SET,
    MEDIA_JSON,
    MERGE_PATCH,
    json_head,
    json_response,
    parse_integer,
    read_body,
    read_query,
    read_record,
    set_of,
)
from plantstore.changes import (
    Conditional,
    Deletion,
    InSet,
    Outcome,
    Patch,
    Precondition,
    Replacement,
    SingleChange,
    UnconditionalChange,
    Upsert,
    entity_tag,
    error_of,
    no_such_plant,
    parse_precondition,
)
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ErrorCode, IdTakenError, RequestError
from plantstore.messages import Request, Response
from plantstore.plants import (
    NewPlant,
    parse_new_plant,
    parse_patch,
    parse_plant,
    render_plant,
    render_stored_plant,
    render_stored_plants,
)

# The media types of a patch.
PATCHES: Final = (MERGE_PATCH, MEDIA_JSON)


class Plants:
    """The operations of `/plants` and `/plants/{id}`.

    Args:
        writer: makes the changes.
        reader: reads plants.
        keeps_changes: whether this process was started so that changes are kept.

    """

    def __init__(self, writer: GroupCommit, reader: GroupRead, *, keeps_changes: bool) -> None:
        self._writer = writer
        self._reader = reader
        self._keeps_changes = keeps_changes

    async def create(self, request: Request) -> Response:
        """Store a plant: 200 once it is on disk, and again 200 for the same plant."""
        read_query(request)
        plant = parse_new_plant(await read_record(request))
        if "change-set" in request.fields:  # few are in one: `_make` for all would take longer
            await self._make(request, plant, None)
            return json_response(render_plant(plant), self._set_of(request))
        if await self._writer.submit(plant) is Outcome.ID_TAKEN:
            raise IdTakenError(plant.id)
        return json_response(render_plant(plant))

    async def list(self, request: Request) -> Response:
        """List plants in order of id or by name, and link to other pages."""
        wanted = read_page_request(request)
        if request.method == "HEAD":
            await self._reader.find_plant(0)  # whether plants can be read
            return json_head()
        page = await self._reader.list_plants(wanted.listing, request)
        plants, fields = describe_page(wanted, page)
        return json_response(render_stored_plants(plants), fields)

    async def show(self, request: Request) -> Response:
        """Return the plant with this id."""
        id_, precondition = _parse_target(request)
        plant = await self._reader.find_plant(id_)
        if plant is None:
            raise no_such_plant(id_)
        etag = entity_tag(plant.name, plant.tag)
        if precondition is not None and not precondition.matches(etag):
            raise _condition_is_false(id_, etag)
        if precondition is not None and not precondition.none_matches(etag):
            return Response(HTTPStatus.NOT_MODIFIED.value, {"ETag": etag})
        return json_response(render_stored_plant(plant), {"ETag": etag})

    async def put(self, request: Request) -> Response:
        """Replace the plant with this id: 200 once it is on disk.

        With `If-None-Match: *`, create it instead: 201.
        """
        id_, precondition = _parse_target(request)
        plant = parse_plant(await read_record(request))
        fields = {"ETag": entity_tag(plant.name, plant.tag)} | self._set_of(request)
        if _creates(request):
            upsert = Upsert(NewPlant(id_, plant.name, plant.tag))
            await self._make(request, upsert, precondition)
            return json_response(render_plant(plant), fields, HTTPStatus.CREATED.value)
        await self._make(request, Replacement(id_, plant), precondition)
        return json_response(render_plant(plant), fields)

    async def patch(self, request: Request) -> Response:
        """Change members of the plant with this id: 200 once the plant is on disk."""
        id_, precondition = _parse_target(request)
        patch = parse_patch(await read_record(request, PATCHES))
        plant = await self._make(request, Patch(id_, patch), precondition)
        if plant is None:
            raise no_such_plant(id_)
        fields = {"ETag": entity_tag(plant.name, plant.tag)} | self._set_of(request)
        return json_response(render_plant(plant), fields)

    async def delete(self, request: Request) -> Response:
        """Delete the plant with this id: 204 once the deletion is on disk."""
        id_, precondition = _parse_target(request)
        # A body has no meaning here. But until it has arrived, the request may still be refused.
        await read_body(request)
        await self._make(request, Deletion(id_), precondition)
        return Response(HTTPStatus.NO_CONTENT.value, self._set_of(request))

    def _set_of(self, request: Request) -> dict[str, str]:
        """Return the field of a response that names the set of the change."""
        name = set_of(request) if self._keeps_changes else None
        return {} if name is None else {CHANGE_SET: name}

    async def _make(
        self,
        request: Request,
        change: NewPlant | UnconditionalChange,
        precondition: Precondition | None,
    ) -> NewPlant | None:
        """Make a change of a request; return the plant afterwards if the result has it.

        Raises:
            RequestError: ID_TAKEN, NO_SUCH_PLANT, BODY_TOO_LARGE, PRECONDITION_FAILED or
                SET_CLOSED; INVALID_PARAMETER, if the name of its set is malformed; or
                as `GroupCommit.submit` does.

        """
        single: SingleChange = change
        if precondition is not None and not isinstance(change, NewPlant):
            single = Conditional(change, precondition)
        name = set_of(request)
        result = await self._writer.submit(single if name is None else InSet(single, name))
        if isinstance(result, Outcome):
            if error := error_of(result, change.id):
                raise error
            return None
        plant = result.plant
        if result.outcome is Outcome.PRECONDITION_FAILED:
            etag = None if plant is None else entity_tag(plant.name, plant.tag)
            excludes = precondition is not None and not precondition.none_matches(etag)
            raise _condition_is_false(change.id, etag, is_excluded=excludes)
        return plant


def scope_of_put(request: Request) -> str:
    """Return the scope that a PUT needs: it replaces a plant or creates one."""
    return "plants:create" if _creates(request) else "plants:update"


def _creates(request: Request) -> bool:
    return request.fields.get("if-none-match") == "*"


def _parse_target(request: Request) -> tuple[int, Precondition | None]:
    """Return the id in the path of a request, and its condition. It has no query.

    Raises:
        RequestError: INVALID_PARAMETER, or BAD_REQUEST if the condition is malformed.

    """
    read_query(request)
    condition = parse_precondition(
        request.fields.get("if-match"), request.fields.get("if-none-match")
    )
    return parse_integer(request.path.rpartition("/")[2]), condition


def _condition_is_false(id_: int, etag: str | None, *, is_excluded: bool = False) -> RequestError:
    """Return the error for a plant that now has this entity tag, or None if there is no plant.

    If it `is_excluded`, If-None-Match is false, and not If-Match.
    """
    if etag is None:
        found = f"no plant is stored under the id {id_}"
    elif is_excluded:
        found = f"a plant is stored under the id {id_}, and If-None-Match excludes it"
    else:
        found = f"the plant under the id {id_} is not the expected one"
    message = f"The condition is false: {found}"
    fields = None if etag is None else {"ETag": etag}
    return RequestError(ErrorCode.PRECONDITION_FAILED, message, fields)
