"""Pages of a list: their parameters, and the fields that lead to other pages (RFC 8288)."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

from plantstore.api.parameters import (
    INT32_MAX,
    has_preference,
    invalid,
    parse_flag,
    parse_integer,
    parse_number,
    read_query,
)
from plantstore.errors import quoted
from plantstore.listings import Listing, Place, PlantsPage
from plantstore.messages import Request
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.words import order_key, text_of, words_to_find

LIMIT_DEFAULT: Final = 100

# A larger limit is treated as this one.
LIMIT_MAX: Final = 1000

# Maximum length of `q` and of `from`. Each word of `q` costs time.
QUERY_CHARACTERS_MAX: Final = 100

# The parameters that say which plants are wanted.
FILTERS: Final = ("tag", "untagged", "q")

# The parameters that say in which order, and from where. An export has them too.
ORDER: Final = ("sort", "order", "from")

LISTING_PARAMETERS: Final = ("limit", "after", "before", *ORDER, *FILTERS)

_COUNT_EXACT: Final = "count=exact"


def parse_limit(parameters: dict[str, str]) -> int:
    """Return the maximum number of items on a page.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    return min(parse_number(parameters, "limit", LIMIT_DEFAULT, INT32_MAX), LIMIT_MAX)


def link(path: str, relation: str, parameters: dict[str, str], **bounds: object) -> str:
    """Return a link to another page: it has the parameters of this one, with other bounds.

    It is relative to the address of the page, as it is behind a proxy that adds a prefix. It has
    the last segment of the path (RFC 3986 §5.2), for clients that resolve each link with the
    address of the service.
    """
    query: dict[str, object] = {**parameters, "after": None, "before": None, "from": None, **bounds}
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


def read_page_request(request: Request) -> PageRequest:
    """Read the parameters of a listing, and whether its total is asked for.

    Raises:
        RequestError: INVALID_PARAMETER, for a value that is out of bounds.

    """
    parameters = read_query(request, *LISTING_PARAMETERS)
    has_total = has_preference(request, _COUNT_EXACT)
    wanted = parse_filters(parameters)._replace(limit=parse_limit(parameters), has_total=has_total)
    after, before = (
        parse_integer(parameters[name], name) if name in parameters else None
        for name in ("after", "before")
    )
    if wanted.place is not None:
        if before is not None:
            raise invalid("`before` must be absent with `sort=name`: these pages are read forwards")
        if after is not None:
            if "from" not in parameters:
                raise invalid("`after` needs `from` with `sort=name`: the name of this plant")
            wanted = wanted._replace(place=wanted.place._replace(id=after))
        return PageRequest(parameters, wanted)
    is_before = before is not None and after is None
    listing = wanted._replace(
        after=before if is_before else after,
        is_descending=wanted.is_descending is not is_before,
    )
    return PageRequest(parameters, listing, is_before, None if is_before else before)


def parse_filters(parameters: dict[str, str]) -> Listing:
    """Parse the parameters FILTERS and ORDER.

    Raises:
        RequestError: INVALID_PARAMETER.

    """
    sort = parameters.get("sort", parameters.get("order", "id"))
    if sort not in ("id", "-id", "name"):
        raise invalid(f"`sort` must be id, -id or name, got {quoted(sort)}")
    if parameters.get("order", sort) != sort:
        raise invalid("`order` is another spelling of `sort`; give one of them")
    if "from" in parameters and sort != "name":
        raise invalid("`from` must be absent without `sort=name`")
    is_untagged = parse_flag(parameters, "untagged")
    if is_untagged and "tag" in parameters:
        raise invalid("`tag` must be absent with `untagged`")
    return Listing(
        tag=parameters.get("tag"),
        words=None if (query := parse_text(parameters, "q")) is None else words_to_find(query),
        is_descending=sort == "-id",
        is_untagged=is_untagged,
        place=Place(order_key(parse_text(parameters, "from") or "")) if sort == "name" else None,
    )


def parse_text(parameters: dict[str, str], name: str) -> str | None:
    """Return the value of a parameter; None if there is none.

    Raises:
        RequestError: INVALID_PARAMETER, if it is too long.

    """
    text = parameters.get(name)
    if text is not None and len(text) > QUERY_CHARACTERS_MAX:
        raise invalid(
            f"`{name}` must have at most {QUERY_CHARACTERS_MAX} characters, got {len(text)}"
        )
    return text


def describe_page(request: PageRequest, page: PlantsPage) -> tuple[list[NewPlant], dict[str, str]]:
    """Return the plants of a page in order, and the fields of the response that describe it."""
    if request.until is not None:
        page = _cut(page, request.until, is_descending=request.listing.is_descending)
    fields = {}
    if links := _links_to_pages(request, page):
        fields["Link"] = links
    if page.total is not None:
        fields["Total-Count"] = str(page.total.plants)
        fields["Preference-Applied"] = _COUNT_EXACT if page.total.is_exact else "count=at-least"
    return (page.items[::-1] if request.is_before else page.items), fields


def _links_to_pages(request: PageRequest, page: PlantsPage) -> str:
    """Return the Link field with the other pages of plants; empty if there are none."""
    bounds = {
        "next": _bounds_of_next(request, page),
        "prev": _bounds_of_previous(request, page),
        "first": None if _is_first(request) else {},
    }
    return ", ".join(
        link("plants", relation, request.parameters, **of_page)
        for relation, of_page in bounds.items()
        if of_page is not None
    )


def _bounds_of_next(request: PageRequest, page: PlantsPage) -> dict[str, object] | None:
    if request.is_before:
        # The plants of the page are in the opposite order. If there are none up to the beginning,
        # the next page is the first one.
        return {"after": page.items[0].id if page.items else page.end}
    if isinstance(page.end, Place):
        return {"from": text_of(page.end.key), "after": page.end.id}
    return None if page.end is None else {"after": page.end, "before": request.until}


def _bounds_of_previous(request: PageRequest, page: PlantsPage) -> dict[str, object] | None:
    if request.is_before:
        return None if page.end is None else {"before": page.end}
    listing = request.listing
    if request.until is not None or listing.place is not None or listing.after is None:
        return None
    if page.items:
        before = page.items[0].id
    else:  # they were deleted: the previous page ends with the plant before them
        before = listing.after + (-1 if listing.is_descending else 1)
    return {"before": before} if ID_MIN <= before <= ID_MAX else None


def _is_first(request: PageRequest) -> bool:
    """Return whether a page begins where its listing does. One with `until` has no first page."""
    listing = request.listing
    begins_later = listing.after is not None and request.until is None
    return not begins_later and listing.place in (None, Place())


def _cut(page: PlantsPage, until: int, *, is_descending: bool) -> PlantsPage:
    """Return a page without the plants from an id on."""

    def is_before(id_: int) -> bool:
        return id_ > until if is_descending else id_ < until

    if isinstance(page.end, int) and is_before(page.end):
        return page
    plants = [plant for plant in page.items if is_before(plant.id)]
    return page._replace(items=plants, end=None, is_last=True)
