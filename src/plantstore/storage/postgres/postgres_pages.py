"""Reads plants: by id, and in pages.

A search first examines the next plants in order of id. If this does not fill the page, the index
of words (GIN) finds all plants, if they are not too many: it has no order. Otherwise the page has
the plants that were found among the examined ones, and the next page continues after these.

The words of each name are in the column `words`, which has the index. PostgreSQL would find other
words in a name than `plantstore.words`, depending on its settings. So the column gets the words
themselves.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from psycopg.rows import TupleRow

from plantstore.listings import COUNT_MAX, PAGE_BYTES_MAX, Count, Listing, Page, PlantsPage
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.storage.postgres.session import Connection, fenced
from plantstore.words import SEARCHED_CHARACTERS_MAX, words_of

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
    values: dict[str, Any] = {
        "after": first if listing.after is None else listing.after,
        "tag": listing.tag,
        "words": " & ".join(f"'{word}':*" for word in listing.words or ()),
        "limit": listing.limit + 1,  # one more, to learn whether this is the last page
    }
    if listing.words is None:
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
    return page._replace(total=listing.total_of(total))


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
    return examined._replace(end=ends[0][0], is_last=False)


def _page_of(rows: list[TupleRow], listing: Listing) -> PlantsPage:
    found = rows[0][3] if rows else 0
    plants = [NewPlant(id_, name, tag) for id_, name, tag, _, _ in rows[: listing.limit] if found]
    is_last = len(plants) == found
    return Page(plants, None if is_last else plants[-1].id, is_last)


def page_query(listing: Listing) -> str:
    """Return the SQL of a page. The key or the index of tags finds the rows.

    Each row is a plant, the number of plants found, and the total that the listing asks for, or
    else NULL. With a total, there is a row even if no plants are found. Plants that would make
    the page too large are left out, but never the first one.

    For a listing with words, the query examines EXAMINED_MAX plants, and has no total.
    """
    where, order = _where(listing), _order(listing)
    if listing.words is None:
        return _page_from(
            f"SELECT id, name, tag FROM plants WHERE {where} {order} LIMIT %(limit)b", listing
        )
    examined = f"SELECT * FROM plants WHERE {where} {order} LIMIT {EXAMINED_MAX}"
    return _page_from(
        f"SELECT id, name, tag FROM ({examined}) AS examined WHERE {_HAS_WORDS} {order}"
        " LIMIT %(limit)b",
        listing,
    )


def search_query(listing: Listing) -> str:
    """Return the SQL of a page of a search. The index of words finds the plants.

    The rows are those of `page_query`; the last value is the number of plants found, at most
    FOUND_MAX + 1.
    """
    found = f"SELECT id FROM plants WHERE {_HAS_WORDS} AND {_where(listing)} LIMIT {FOUND_MAX + 1}"
    first = f"SELECT id FROM found {_order(listing)} LIMIT %(limit)b"
    plants = f"SELECT id, name, tag FROM ({first}) AS first JOIN plants USING (id)"
    page = _page_from(plants, listing, "(SELECT count(*) FROM found)")
    return f"WITH found AS MATERIALIZED ({found}) {page}"


def _end_query(listing: Listing) -> str:
    """Return the SQL for the id of the last plant that `page_query` examines, if any follow."""
    where, order = _where(listing), _order(listing)
    return f"SELECT id FROM plants WHERE {where} {order} OFFSET {EXAMINED_MAX - 1} LIMIT 1"


def _page_from(plants: str, listing: Listing, total: str = "NULL::bigint") -> str:
    order = _order(listing)
    page = f"""
SELECT id, name, tag, found, {total} AS total FROM (
    SELECT id, name, tag, count(*) OVER () AS found, row_number() OVER ({order}) AS number,
        sum({_BYTES}) OVER ({order}) AS bytes
    FROM ({plants}) AS next
) AS page WHERE number = 1 OR bytes <= {PAGE_BYTES_MAX} {order}
"""
    if not listing.has_total or listing.words is not None:
        return page
    return f"""
SELECT id, name, tag, coalesce(found, 0), counted.total
FROM ({_count(listing)}) AS counted LEFT JOIN ({page}) AS page ON true {order}
"""


def _count(listing: Listing) -> str:
    if listing.is_everything:
        return "SELECT coalesce(sum(plants), 0)::bigint AS total FROM totals"
    conditions = [_HAS_TAG] if listing.tag is not None else []
    conditions += [_HAS_WORDS] if listing.words is not None else []
    bounded = f"SELECT FROM plants WHERE {' AND '.join(conditions)} LIMIT {COUNT_MAX + 1}"
    return f"SELECT count(*) AS total FROM ({bounded}) AS bounded"


def _where(listing: Listing) -> str:
    comparison = "<" if listing.is_descending else ">"
    equal = "=" if listing.after is None else ""
    where = f"id {comparison}{equal} %(after)b"
    return where if listing.tag is None else f"{_HAS_TAG} AND {where}"


def _order(listing: Listing) -> str:
    return "ORDER BY id DESC" if listing.is_descending else "ORDER BY id"


# Number of plants that are compared, and indexed in one transaction; and whose words a check
# compares.
PLANTS_MAX: Final = 1_000

# The value of the column for an element of `documents`.
WORDS: Final = "array_to_tsvector(string_to_array(given.words, ' '))"

_INDEX: Final = f"""
UPDATE plants SET words = {WORDS}
FROM unnest(%b::bigint[], %b::text[]) AS given (id, words) WHERE plants.id = given.id
"""

# A name is searched from its beginning.
_NAME: Final = f"left(name, {SEARCHED_CHARACTERS_MAX})"
_COMPARED: Final = f"SELECT id, {_NAME}, tsvector_to_array(words) FROM plants"
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
        id_ for id_, name, words in rows if words is None or sorted(words_of(name)) != sorted(words)
    ]


def _index(connection: Connection, ids: list[int]) -> None:
    with fenced(connection):
        names: dict[int, str] = dict(connection.fetch(_NAMES, (ids,)))
        connection.execute(_INDEX, (list(names), documents(names.values())))
