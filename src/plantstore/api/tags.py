"""The operation on tags: `/tags`."""

from typing import Final

import msgspec

from plantstore.api.paging import link, parse_limit, parse_text
from plantstore.api.parameters import invalid, json_head, json_response, parse_integer, read_query
from plantstore.commit.reader import GroupRead
from plantstore.errors import quoted
from plantstore.listings import TagListing
from plantstore.messages import Request, Response
from plantstore.store import PlantStore
from plantstore.words import order_beginning

# Maximum length of a key in `after`; that of a tag is shorter.
_KEY_CHARACTERS_MAX: Final = 200


async def list_tags(reader: GroupRead, request: Request) -> Response:
    """List tags with the numbers of their plants, and say how many plants have no tag."""
    parameters = read_query(request, "limit", "after", "sort", "q")
    listing = _parse_listing(parameters)
    if request.method == "HEAD":
        await reader.find_plant(0)  # whether tags can be read
        return json_head()
    page = await reader.read(request, PlantStore.list_tags, listing)
    links = []
    if not page.is_last:
        key, _, plants = page.tags[-1]
        # Percent-encoded, the position has less than 1 KiB.
        links.append(link("tags", "next", parameters, after=f"{plants}.{key}"))
    if "after" in parameters:
        links.append(link("tags", "first", parameters))
    fields = {"Link": ", ".join(links)} if links else {}
    fields["Untagged-Count"] = str(page.untagged)
    tags = [{"tag": tag, "plants": plants} for _, tag, plants in page.tags]
    return json_response(msgspec.json.encode(tags), fields)


def _parse_listing(parameters: dict[str, str]) -> TagListing:
    sort = parameters.get("sort", "tag")
    if sort not in ("tag", "-plants"):
        raise invalid(f"`sort` must be tag or -plants, got {quoted(sort)}")
    return TagListing(
        limit=parse_limit(parameters),
        after=_parse_position(parameters["after"]) if "after" in parameters else None,
        beginning=order_beginning(parse_text(parameters, "q") or ""),
        is_by_plants=sort == "-plants",
    )


def _parse_position(text: str) -> tuple[int, str]:
    plants, dot, key = text.partition(".")
    if not dot or len(key) > _KEY_CHARACTERS_MAX:
        raise invalid(f"`after` must be that of a Link, got {quoted(text)}")
    return parse_integer(plants, "after"), key
