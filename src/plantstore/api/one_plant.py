"""The operations on one plant: `/plants/{id}`.

Conditions of changes are evaluated in the transaction of the change, by `plantstore.decision`.
"""

from http import HTTPStatus
from typing import Final

from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.limits import MERGE_PATCH, read_json_body
from plantstore.api.parameters import NO_PARAMETERS, parse_id, read_query
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
from plantstore.errors import ErrorCode, PreconditionFailedError, RequestError
from plantstore.plants import (
    TOO_LARGE,
    NewPlant,
    Plant,
    is_too_large,
    parse_patch,
    parse_plant,
    render_plant,
    render_stored_plant,
)

_METHODS: Final = "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"


class OnePlant:
    """`/plants/{id}`: shows, replaces, patches and deletes a plant, or creates it by PUT."""

    def __init__(self, *, gate: Gate, writer: GroupCommit, reader: GroupRead) -> None:
        self._gate = gate
        self._writer = writer
        self._reader = reader

    async def on_get(self, req: Request, resp: Response, id: str) -> None:
        """Return the plant with this id. It is never compressed, so its ETag is always the same."""
        await self._gate.authorize(req, "plants:read")
        id_ = _read_id(req, id)
        precondition = _read_precondition(req)
        plant = await self._reader.find_plant(id_)
        if plant is None:
            raise _no_such_plant(id_)
        etag = _set_etag(resp, plant)
        if precondition is not None and not precondition.matches(etag):
            raise PreconditionFailedError(id_, etag)
        if precondition is not None and not precondition.none_matches(etag):
            resp.status = HTTPStatus.NOT_MODIFIED
            return
        resp.data = render_stored_plant(plant)

    on_head = on_get

    async def on_options(self, _req: Request, resp: Response, id: str) -> None:  # noqa: ARG002
        """Return the methods, and the media type of patches (RFC 5789 §3.1)."""
        resp.set_header("Allow", _METHODS)
        resp.set_header("Accept-Patch", MERGE_PATCH)

    async def on_put(self, req: Request, resp: Response, id: str) -> None:
        """Replace the plant with this id: 200 once it is on disk.

        With `If-None-Match: *`, create it instead: 201.
        """
        creates = req.get_header("If-None-Match") == "*"
        await self._gate.authorize(req, "plants:create" if creates else "plants:update")
        id_ = _read_id(req, id)
        precondition = _read_precondition(req)
        plant = parse_plant(await read_json_body(req))
        new = NewPlant(id_, plant.name, plant.tag)
        if is_too_large(new):
            raise _too_large()
        if creates:
            await self._make(Upsert(new), precondition)
            resp.status = HTTPStatus.CREATED
        else:
            await self._make(Replacement(id_, plant), precondition)
        _set_etag(resp, plant)
        resp.data = render_plant(plant)

    async def on_patch(self, req: Request, resp: Response, id: str) -> None:
        """Change members of the plant with this id: 200 once the plant is on disk."""
        await self._gate.authorize(req, "plants:update")
        id_ = _read_id(req, id)
        precondition = _read_precondition(req)
        body = await read_json_body(req, MERGE_PATCH)
        plant = await self._make(Patch(id_, parse_patch(body)), precondition)
        if plant is not None:
            _set_etag(resp, plant)
            resp.data = render_plant(plant)

    async def on_delete(self, req: Request, resp: Response, id: str) -> None:
        """Delete the plant with this id: 204 once the deletion is on disk."""
        await self._gate.authorize(req, "plants:delete")
        id_ = _read_id(req, id)
        precondition = _read_precondition(req)
        # A body has no meaning here. But until it has arrived, the request may still be refused.
        await req.stream.exhaust()
        await self._make(Deletion(id_), precondition)
        resp.status = HTTPStatus.NO_CONTENT

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
            raise _too_large()
        if not isinstance(result, PlantOutcome):
            return None
        plant = result.plant
        if result.outcome is Outcome.PRECONDITION_FAILED:
            etag = None if plant is None else entity_tag(plant.name, plant.tag)
            raise PreconditionFailedError(change.id, etag)
        return plant


def _read_id(req: Request, text: str) -> int:
    read_query(req, NO_PARAMETERS)
    return parse_id(text)


def _read_precondition(req: Request) -> Precondition | None:
    return parse_precondition(req.get_header("If-Match"), req.get_header("If-None-Match"))


def _set_etag(resp: Response, plant: NewPlant | Plant) -> str:
    etag = entity_tag(plant.name, plant.tag)
    resp.set_header("ETag", etag)
    return etag


def _too_large() -> RequestError:
    return RequestError(ErrorCode.BODY_TOO_LARGE, TOO_LARGE)


def _no_such_plant(id_: int) -> RequestError:
    return RequestError(ErrorCode.NO_SUCH_PLANT, f"No plant is stored under the id {id_}")
