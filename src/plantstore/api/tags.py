"""The operation on tags: `/tags`."""

from typing import Final

import msgspec
from falcon.asgi import Request, Response

from plantstore.api.auth import Authenticator
from plantstore.api.paging import link, parse_limit, parse_text
from plantstore.api.parameters import invalid, parse_integer, read_query
from plantstore.commit.reader import GroupRead
from plantstore.errors import quoted
from plantstore.listings import TagListing
from plantstore.store import PlantStore
from plantstore.words import order_beginning

# Maximum length of a key in `after`; that of a tag is shorter.
_KEY_CHARACTERS_MAX: Final = 200


class Tags:
    """`/tags`: lists the tags with the numbers of their plants."""

    def __init__(self, authenticator: Authenticator, reader: GroupRead) -> None:
        self._authenticator = authenticator
        self._reader = reader

    async def on_get(self, req: Request, resp: Response) -> None:
        """List tags, link to other pages, and say how many plants have no tag."""
        await self._authenticator.authorize(req, "plants:read")
        parameters = read_query(req, "limit", "after", "sort", "q")
        page = await self._reader.read(PlantStore.list_tags, _parse_listing(parameters))
        links = []
        if not page.is_last:
            key, _, plants = page.tags[-1]
            # Percent-encoded, the position has less than 1 KiB.
            links.append(link("tags", "next", parameters, after=f"{plants}.{key}"))
        if "after" in parameters:
            links.append(link("tags", "first", parameters))
        if links:
            resp.set_header("Link", ", ".join(links))
        resp.set_header("Untagged-Count", str(page.untagged))
        resp.data = msgspec.json.encode(
            [{"tag": tag, "plants": plants} for _, tag, plants in page.tags]
        )

    on_head = on_get


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
