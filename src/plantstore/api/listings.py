"""The query of a listing, and the links between its pages."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from falcon.asgi import Request, Response

from plantstore.api.parameters import INT32_MAX, invalid, parse_id, parse_number
from plantstore.api.preferences import has_preference
from plantstore.listings import Listing, Page
from plantstore.plants import NewPlant
from plantstore.words import words_to_find

LIMIT_DEFAULT: Final = 100

# A larger limit is treated as this one.
LIMIT_MAX: Final = 1000

# Maximum length of `q`. Each of its words costs time.
QUERY_CHARACTERS_MAX: Final = 100

LISTING_PARAMETERS: Final = frozenset({"limit", "after", "before", "order", "tag", "q"})
EXPORT_PARAMETERS: Final = frozenset({"tag", "q"})

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
        raise invalid(f"`order` must be id or -id, got {order!r:.40}")
    after, before = (
        parse_id(parameters[name], name) if name in parameters else None
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


def wants_total(req: Request) -> bool:
    """Return whether a request prefers to learn the number of plants."""
    return has_preference(req, _COUNT_EXACT)


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

    They have no path, so they also work if a proxy adds a prefix to the paths of the service.
    """
    bounds = {"after"} if request.until is not None else {"after", "before"}
    others = {name: text for name, text in request.parameters.items() if name not in bounds}

    def link(relation: str, **bound: int) -> str:
        query = urlencode(others | bound, quote_via=quote)
        return f'<?{query}>; rel="{relation}"'

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
