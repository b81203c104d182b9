"""The operations on plants: `/plants` and `/plants/{id}`.

Conditions of changes are evaluated in the transaction of the change, by `plantstore.decision`.
"""

from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from falcon import MEDIA_JSON
from falcon.asgi import Request, Response

from plantstore.api.auth import Authenticator
from plantstore.api.parameters import (
    INT32_MAX,
    MERGE_PATCH,
    has_preference,
    invalid,
    parse_integer,
    parse_number,
    read_json_body,
    read_query,
)
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
from plantstore.errors import ErrorCode, IdTakenError, RequestError, quoted
from plantstore.listings import Listing, Page
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
from plantstore.words import words_to_find

LIMIT_DEFAULT: Final = 100

# A larger limit is treated as this one.
LIMIT_MAX: Final = 1000

# Maximum length of `q`. Each of its words costs time.
QUERY_CHARACTERS_MAX: Final = 100

LISTING_PARAMETERS: Final = ("limit", "after", "before", "order", "tag", "q")

_COUNT_EXACT: Final = "count=exact"


class PageRequest(NamedTuple):
    """A request for a page of plants.

    Attributes:
        parameters: of its query.
        listing: what the store is asked for.
        is_before: whether the page ends before an id. The listing then has the opposite order.
        until: the id before which the pages end, if they also begin after one.

    """

    parameters: dict[str, str]
    listing: Listing
    is_before: bool = False
    until: int | None = None


def parse_page_request(parameters: dict[str, str], *, has_total: bool = False) -> PageRequest:
    """Parse the parameters of a listing.

    Raises:
        RequestError: INVALID_PARAMETER, for a value that is out of bounds.

    """
    order = parameters.get("order", "id")
    if order not in ("id", "-id"):
        raise invalid(f"`order` must be id or -id, got {quoted(order)}")
    after, before = (
        parse_integer(parameters[name], name) if name in parameters else None
        for name in ("after", "before")
    )
    is_before = before is not None and after is None
    listing = Listing(
        after=before if is_before else after,
        limit=min(parse_number(parameters, "limit", LIMIT_DEFAULT, INT32_MAX), LIMIT_MAX),
        tag=parameters.get("tag"),
        words=parse_words(parameters),
        is_descending=(order == "-id") is not is_before,
        has_total=has_total,
    )
    return PageRequest(parameters, listing, is_before, None if is_before else before)


def parse_words(parameters: dict[str, str]) -> tuple[str, ...] | None:
    """Return the words of the parameter `q`; None if there is none.

    Raises:
        RequestError: INVALID_PARAMETER, if it is too long.

    """
    query = parameters.get("q")
    if query is None:
        return None
    if len(query) > QUERY_CHARACTERS_MAX:
        raise invalid(f"`q` must have at most {QUERY_CHARACTERS_MAX} characters, got {len(query)}")
    return words_to_find(query)


def describe_page(resp: Response, request: PageRequest, page: Page) -> list[NewPlant]:
    """Set the fields of a response that describe a page, and return its plants in order."""
    if request.until is not None:
        page = _cut(page, request.until, is_descending=request.listing.is_descending)
    if links := links_to_pages(request, page):
        resp.set_header("Link", links)
    if page.total is not None:
        resp.set_header("Total-Count", str(page.total.plants))
        applied = _COUNT_EXACT if page.total.is_exact else "count=at-least"
        resp.set_header("Preference-Applied", applied)
    return page.plants[::-1] if request.is_before else page.plants


def links_to_pages(request: PageRequest, page: Page) -> str:
    """Return the Link field with the other pages (RFC 8288); empty if there are none.

    A link is relative to the address of the page, as it is behind a proxy that adds a prefix. It
    has the last segment of the path (RFC 3986 §5.2), for clients that resolve each link with the
    address of the service.
    """
    bounds = {"after"} if request.until is not None else {"after", "before"}
    others = {name: text for name, text in request.parameters.items() if name not in bounds}

    def link(relation: str, **bound: int) -> str:
        query = urlencode(others | bound, quote_via=quote)
        return f'<plants?{query}>; rel="{relation}"'

    links = []
    if request.is_before:
        # The plants of the page are in the opposite order. If there are none up to the beginning,
        # the next page is the first one.
        start = page.plants[0].id if page.plants else page.end
        links.append(link("next") if start is None else link("next", after=start))
        if page.end is not None:
            links.append(link("prev", before=page.end))
    else:
        if page.end is not None:
            links.append(link("next", after=page.end))
        if request.listing.after is not None and request.until is None and page.plants:
            links.append(link("prev", before=page.plants[0].id))
    if request.listing.after is not None and request.until is None:
        links.append(link("first"))
    return ", ".join(links)


def _cut(page: Page, until: int, *, is_descending: bool) -> Page:
    """Return a page without the plants from an id on."""

    def is_before(id_: int) -> bool:
        return id_ > until if is_descending else id_ < until

    if page.end is not None and is_before(page.end):
        return page
    plants = [plant for plant in page.plants if is_before(plant.id)]
    return page._replace(plants=plants, is_last=True)


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
        """List plants in order of id, and link to other pages."""
        await self._authenticator.authorize(req, "plants:read")
        parameters = read_query(req, *LISTING_PARAMETERS)
        request = parse_page_request(parameters, has_total=has_preference(req, _COUNT_EXACT))
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
