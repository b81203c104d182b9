"""Pages of a list: their parameters, and the fields that lead to other pages (RFC 8288)."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from falcon.asgi import Request, Response

from plantstore.api.parameters import (
    INT32_MAX,
    has_preference,
    invalid,
    parse_integer,
    parse_number,
    read_query,
)
from plantstore.errors import quoted
from plantstore.listings import Listing, PlantsPage
from plantstore.plants import NewPlant
from plantstore.words import words_to_find

LIMIT_DEFAULT: Final = 100

# A larger limit is treated as this one.
LIMIT_MAX: Final = 1000

# Maximum length of `q`. Each of its words costs time.
QUERY_CHARACTERS_MAX: Final = 100

LISTING_PARAMETERS: Final = ("limit", "after", "before", "order", "tag", "q")

_COUNT_EXACT: Final = "count=exact"


def parse_limit(parameters: dict[str, str]) -> int:
    """Return the maximum number of items on a page.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    return min(parse_number(parameters, "limit", LIMIT_DEFAULT, INT32_MAX), LIMIT_MAX)


def link(path: str, relation: str, parameters: dict[str, str], **bounds: int | str | None) -> str:
    """Return a link to another page: it has the parameters of this one, with other bounds.

    It is relative to the address of the page, as it is behind a proxy that adds a prefix. It has
    the last segment of the path (RFC 3986 §5.2), for clients that resolve each link with the
    address of the service.
    """
    query: dict[str, object] = {**parameters, "after": None, "before": None, **bounds}
    given = {name: value for name, value in query.items() if value is not None}
    return f'<{path}?{urlencode(given, quote_via=quote)}>; rel="{relation}"'


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


def read_page_request(req: Request) -> PageRequest:
    """Read the parameters of a listing, and whether its total is asked for.

    Raises:
        RequestError: INVALID_PARAMETER, for a value that is out of bounds.

    """
    parameters = read_query(req, *LISTING_PARAMETERS)
    return parse_page_request(parameters, has_total=has_preference(req, _COUNT_EXACT))


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
        limit=parse_limit(parameters),
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


def describe_page(resp: Response, request: PageRequest, page: PlantsPage) -> list[NewPlant]:
    """Set the fields of a response that describe a page, and return its plants in order."""
    if request.until is not None:
        page = _cut(page, request.until, is_descending=request.listing.is_descending)
    if links := links_to_pages(request, page):
        resp.set_header("Link", links)
    if page.total is not None:
        resp.set_header("Total-Count", str(page.total.plants))
        applied = _COUNT_EXACT if page.total.is_exact else "count=at-least"
        resp.set_header("Preference-Applied", applied)
    return page.items[::-1] if request.is_before else page.items


def links_to_pages(request: PageRequest, page: PlantsPage) -> str:
    """Return the Link field with the other pages of plants; empty if there are none."""
    parameters, listing, is_before, until = request
    links = []
    if is_before:
        # The plants of the page are in the opposite order. If there are none up to the beginning,
        # the next page is the first one.
        start = page.items[0].id if page.items else page.end
        links.append(link("plants", "next", parameters, after=start))
        if page.end is not None:
            links.append(link("plants", "prev", parameters, before=page.end))
    elif page.end is not None:
        links.append(link("plants", "next", parameters, after=page.end, before=until))
    if listing.after is not None and until is None:
        if page.items and not is_before:
            links.append(link("plants", "prev", parameters, before=page.items[0].id))
        links.append(link("plants", "first", parameters))
    return ", ".join(links)


def _cut(page: PlantsPage, until: int, *, is_descending: bool) -> PlantsPage:
    """Return a page without the plants from an id on."""

    def is_before(id_: int) -> bool:
        return id_ > until if is_descending else id_ < until

    if page.end is not None and is_before(page.end):
        return page
    plants = [plant for plant in page.items if is_before(plant.id)]
    return page._replace(items=plants, end=None, is_last=True)
