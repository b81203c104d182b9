"""Reads plants: by id, and in pages.

A search first examines the next plants in order of id. If this does not fill the page, the index
of words (GIN) finds all plants, if they are not too many: it has no order. Otherwise the page has
the plants that were found among the examined ones, and the next page continues after these.

The words of each name are in the column `words`, which has the index. PostgreSQL would find other
words in a name than `plantstore.words`, depending on its settings. So the column gets the words
themselves. For the same reason, `name_key` has the key by which names are in order.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from psycopg.rows import TupleRow

from plantstore.listings import (
    COUNT_MAX,
    PAGE_BYTES_MAX,
    Count,
    Listing,
    Page,
    Place,
    PlantsPage,
    TagCount,
    TagListing,
    TagsPage,
    page_of_tags,
)
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.storage.postgres.session import Connection, fenced
from plantstore.words import SEARCHED_CHARACTERS_MAX, begins, order_key, tag_key, words_of

# Number of plants that a search examines before it uses the index of words.
EXAMINED_MAX: Final = 10_000

# Maximum number of plants that the index of words may find for one page.
FOUND_MAX: Final = 20_000

# Only a bitmap scan can use the index of words. Connections have turned it off, for other queries.
PLAN_OF_SEARCH: Final = "SET LOCAL enable_bitmapscan = on; SET LOCAL enable_seqscan = off"
_PLAN_OF_COUNT: Final = "SET LOCAL enable_bitmapscan = on; SET LOCAL enable_seqscan = on"

_BYTES: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"
_SELECT: Final = "SELECT id, name, tag FROM plants WHERE id = ANY(%b::bigint[])"

_HAS_TAG: Final = "md5(tag)::uuid = md5(%(tag)b)::uuid AND tag = %(tag)b"
_HAS_NO_TAG: Final = "tag IS NULL"
_HAS_WORDS: Final = "words @@ %(words)b::text::tsquery"


def select_by_id(connection: Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    return {row[0]: NewPlant(*row) for row in connection.fetch(_SELECT, (list(ids),))}


def select_page(connection: Connection, listing: Listing, *, is_scan: bool = False) -> PlantsPage:
    """Return the next plants, as `PlantStore.list_plants` does.

    A scan reads all pages. So it only examines plants, and does not use the index of words.
    """
    # PostgreSQL refuses U+0000 in a text.
    if listing.words == () or (listing.tag is not None and "\0" in listing.tag):
        return Page([], None, is_last=True, total=Count(0) if listing.has_total else None)
    first = ID_MAX if listing.is_descending else ID_MIN
    key, after = listing.place or ("", listing.after)
    values: dict[str, Any] = {
        "key": key,
        "after": first if after is None else max(after, ID_MIN),
        "tag": listing.tag,
        "words": " & ".join(f"'{word}':*" for word in listing.words or ()),
        "limit": listing.limit + 1,  # one more, to learn whether this is the last page
    }
    if not listing.is_search:
        rows = connection.fetch(page_query(listing), values)
        page = _page_of(rows, listing)
        total = rows[0][-1] if listing.has_total else 0
    elif is_scan:  # it has a snapshot already
        return _search(connection, listing, values, is_scan=True)
    else:
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            page = _search(connection, listing, values, is_scan=False)
            if listing.has_total:
                connection.execute(_PLAN_OF_COUNT)
                [(total,)] = connection.fetch(_count(listing), values)
    if not listing.has_total:
        return page
    count = Count(total) if listing.is_everything else Count.up_to_max(total)
    return page._replace(total=count)


def _search(
    connection: Connection, listing: Listing, values: dict[str, Any], *, is_scan: bool
) -> PlantsPage:
    rows = connection.fetch(page_query(listing), values)
    examined = _page_of(rows, listing)
    if not examined.is_last:
        return examined
    ends = connection.fetch(_end_query(listing), values)
    if not ends:
        return examined
    if not is_scan:
        with connection.transaction():
            connection.execute(PLAN_OF_SEARCH)
            rows = connection.fetch(search_query(listing), values)
        if not rows or rows[0][-1] <= FOUND_MAX:
            return _page_of(rows, listing)
    return examined._replace(end=_end(listing, *ends[0]), is_last=False)


def _page_of(rows: list[TupleRow], listing: Listing) -> PlantsPage:
    found = rows[0][3] if rows else 0
    plants = [NewPlant(*row[:3]) for row in rows[: listing.limit] if found]
    is_last = len(plants) == found
    end = None if is_last else _end(listing, plants[-1].id, rows[len(plants) - 1][4])
    return Page(plants, end, is_last)


def _end(listing: Listing, id_: int, key: str = "") -> int | Place:
    return id_ if listing.place is None else Place(key, id_)


def page_query(listing: Listing) -> str:
    """Return the SQL of a page. The key or the index of tags finds the rows.

    Each row is a plant, the number of plants found, the key of the name or NULL, and the total that
    the listing asks for, or else NULL. With a total, there is a row even if no plants are found.
    Plants that would make the page too large are left out, but never the first one.

    For a search, the query examines EXAMINED_MAX plants, and has no total.
    """
    where, order = _where(listing), _order(listing)
    if not listing.is_search:
        return _page_from(
            f"{_row(listing)} FROM plants WHERE {where} {order} LIMIT %(limit)b", listing
        )
    examined = f"SELECT * FROM plants WHERE {where} {order} LIMIT {EXAMINED_MAX}"
    wanted = _all_of(_others(listing))
    return _page_from(
        f"{_row(listing)} FROM ({examined}) AS examined WHERE {wanted} {order} LIMIT %(limit)b",
        listing,
    )


def search_query(listing: Listing) -> str:
    """Return the SQL of a page of a search. The index of words finds the plants.

    The rows are those of `page_query`; the last value is the number of plants found, at most
    FOUND_MAX + 1.
    """
    wanted = _all_of([*_others(listing), _where(listing)])
    found = f"SELECT {_place(listing)} FROM plants WHERE {wanted} LIMIT {FOUND_MAX + 1}"
    first = f"SELECT id FROM found {_order(listing)} LIMIT %(limit)b"
    plants = f"{_row(listing)} FROM ({first}) AS first JOIN plants USING (id)"
    page = _page_from(plants, listing, "(SELECT count(*) FROM found)")
    return f"WITH found AS MATERIALIZED ({found}) {page}"


def _end_query(listing: Listing) -> str:
    """Return the SQL for where `page_query` ends to examine plants, if any follow."""
    where, order = _where(listing), _order(listing)
    last = f"{order} OFFSET {EXAMINED_MAX - 1} LIMIT 1"
    return f"SELECT {_place(listing)} FROM plants WHERE {where} {last}"


def _page_from(plants: str, listing: Listing, total: str = "NULL::bigint") -> str:
    order = _order(listing)
    page = f"""
SELECT id, name, tag, found, name_key, {total} AS total FROM (
    SELECT id, name, tag, name_key, count(*) OVER () AS found,
        row_number() OVER ({order}) AS number,
        sum({_BYTES}) OVER ({order}) AS bytes
    FROM ({plants}) AS next
) AS page WHERE number = 1 OR bytes <= {PAGE_BYTES_MAX} {order}
"""
    if not listing.has_total or listing.is_search:
        return page
    return f"""
SELECT id, name, tag, coalesce(found, 0), name_key, counted.total
FROM ({_count(listing)}) AS counted LEFT JOIN ({page}) AS page ON true {order}
"""


def _count(listing: Listing) -> str:
    if listing.is_everything:
        return "SELECT coalesce(sum(plants), 0)::bigint AS total FROM totals"
    bounded = f"SELECT FROM plants WHERE {_all_of(_conditions(listing))} LIMIT {COUNT_MAX + 1}"
    return f"SELECT count(*) AS total FROM ({bounded}) AS bounded"


def _conditions(listing: Listing) -> list[str]:
    conditions = [_HAS_TAG] if listing.tag is not None else []
    conditions += [_HAS_NO_TAG] if listing.is_untagged else []
    return [*conditions, _HAS_WORDS] if listing.words is not None else conditions


def _others(listing: Listing) -> list[str]:
    """Return the conditions that `_where` does not have."""
    if listing.place is None:
        listing = listing._replace(tag=None, is_untagged=False)
    return _conditions(listing)


def _all_of(conditions: Iterable[str]) -> str:
    return " AND ".join(conditions)


def _where(listing: Listing) -> str:
    """Return the condition of the plants that a page reads or examines in order by an index."""
    if listing.place is not None:
        comparison = ">" if listing.place.id >= ID_MIN else ">="
        return f"name_key IS NOT NULL AND (name_key, id) {comparison} (%(key)b, %(after)b)"
    comparison = "<" if listing.is_descending else ">"
    equal = "=" if listing.after is None else ""
    where = f"id {comparison}{equal} %(after)b"
    return _all_of([*_conditions(listing._replace(words=None)), where])


def _place(listing: Listing) -> str:
    return "id" if listing.place is None else "id, name_key"


def _row(listing: Listing) -> str:
    key = "NULL::text AS name_key" if listing.place is None else "name_key"
    return f"SELECT id, name, tag, {key}"


def _order(listing: Listing) -> str:
    if listing.place is not None:
        return "ORDER BY name_key, id"
    return "ORDER BY id DESC" if listing.is_descending else "ORDER BY id"


# Number of plants that are compared, and indexed in one transaction; and whose words a check
# compares.
PLANTS_MAX: Final = 1_000

# The value of the column for an element of `documents`.
WORDS: Final = "array_to_tsvector(string_to_array(given.words, ' '))"

_INDEX: Final = f"""
UPDATE plants SET words = {WORDS}, name_key = given.name_key
FROM unnest(%b::bigint[], %b::text[], %b::text[]) AS given (id, words, name_key)
WHERE plants.id = given.id
"""

# A name is searched from its beginning.
_NAME: Final = f"left(name, {SEARCHED_CHARACTERS_MAX})"
_COMPARED: Final = f"SELECT id, {_NAME}, tsvector_to_array(words), name_key FROM plants"
_COMPARED_FROM: Final = f"{_COMPARED} WHERE id >= %b ORDER BY id LIMIT {PLANTS_MAX + 1}"
_COMPARED_SAMPLE: Final = f"""
{_COMPARED} WHERE id IN (SELECT id FROM plants ORDER BY random() LIMIT {PLANTS_MAX})
"""
_NAMES: Final = f"""
SELECT id, {_NAME} FROM plants WHERE id = ANY(%b::bigint[]) ORDER BY id FOR UPDATE
"""


def documents(names: Iterable[str]) -> list[str]:
    """Return the words of each name, with spaces between them."""
    return [" ".join(words_of(name)) for name in names]


def index_words(connection: Connection) -> Iterator[int]:
    """Read all plants, in pages, and give those the words of their names that have others or none.

    Each page is a transaction of its own. The caller checks the standbys.

    Yields:
        The number of plants of a page.

    """
    first: int | None = ID_MIN
    while first is not None:
        rows = connection.fetch(_COMPARED_FROM, (first,))
        if wrong := _with_other_words(rows[:PLANTS_MAX]):
            _index(connection, wrong)
        yield len(rows[:PLANTS_MAX])
        first = rows[PLANTS_MAX][0] if len(rows) > PLANTS_MAX else None


def find_other_words(connection: Connection) -> list[int]:
    """Return those of some plants, chosen at random, whose words are not those of their names."""
    return _with_other_words(connection.fetch(_COMPARED_SAMPLE))


def _with_other_words(rows: list[TupleRow]) -> list[int]:
    return [
        id_
        for id_, name, words, key in rows
        if key != order_key(name) or words is None or sorted(words_of(name)) != sorted(words)
    ]


def _index(connection: Connection, ids: list[int]) -> None:
    with fenced(connection):
        names: dict[int, str] = dict(connection.fetch(_NAMES, (ids,)))
        keys = [order_key(name) for name in names.values()]
        connection.execute(_INDEX, (list(names), documents(names.values()), keys))


_TAGS: Final = "SELECT tag, count(*) FROM plants GROUP BY tag"


def select_tags(connection: Connection, listing: TagListing) -> TagsPage:
    """Return the next tags, as `PlantStore.list_tags` does."""
    with connection.cursor(binary=True) as cursor:
        return _page_of_counts(listing, cursor.stream(_TAGS))


def _page_of_counts(listing: TagListing, counts: Iterable[tuple[str | None, int]]) -> TagsPage:
    """Return the page of a listing from all tags in any order, each with the number of its plants.

    It keeps no more tags than those of the page, however many there are.
    """
    untagged = 0

    def place(plants: int, key: str) -> tuple[int, str]:
        return (-plants if listing.is_by_plants else 0), key

    def following() -> Iterable[TagCount]:
        nonlocal untagged
        for tag, plants in counts:
            if tag is None:
                untagged = plants
                continue
            key = tag_key(tag)
            is_wanted = begins(key, listing.beginning)
            if is_wanted and (listing.after is None or place(plants, key) > place(*listing.after)):
                yield TagCount(key, tag, plants)

    first = heapq.nsmallest(
        listing.limit + 1, following(), key=lambda each: place(each.plants, each.key)
    )
    return page_of_tags(listing, first, untagged)
