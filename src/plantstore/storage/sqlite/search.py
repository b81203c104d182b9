"""Finds plants by the beginnings of the words of their names.

FTS5 has an entry for each word, and one for each of its first one, two and three characters. It
reads an entry lazily, in order of id. So a search for up to three characters costs as much as the
page that it fills. A longer beginning is replaced by the words of the index that begin with it.
If there are too many of these words, the search uses only the first three characters, and the
names that it finds are compared with the whole beginning. A tag is compared in the same way.

Such a search examines a limited number of plants for a page. The page may then have fewer plants
than requested, and the next page continues.
"""

from itertools import accumulate
from typing import Final, NamedTuple

import apsw
import msgspec

from plantstore.listings import COUNT_MAX, PAGE_BYTES_MAX, Count, Listing, Page
from plantstore.storage.sqlite.rows import SIZE, WITH_IDS, decode_integers, select_by_id, to_json
from plantstore.storage.sqlite.word_index import MAKE_VOCABULARY
from plantstore.words import SEARCHED_CHARACTERS_MAX, has_words

# Maximum number of plants that a search examines for one page.
EXAMINED_MAX: Final = COUNT_MAX

# Number of plants that are examined at a time, and of bytes after which a search ends. They limit
# the memory and the time for long names.
_EXAMINED_AT_ONCE: Final = 250
EXAMINED_BYTES_MAX: Final = 512 * 1024

# Beginnings of up to this length have entries of their own. It is the largest of `prefix` in the
# migration that creates the table.
_PREFIX_CHARACTERS_MAX: Final = 3

# Maximum number of words that replace the beginning of a word.
_WORDS_MAX: Final = 32

_NEXT_WORD: Final = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? LIMIT 1"

_COUNT: Final = """
SELECT count(*) FROM (SELECT 1 FROM plant_words WHERE plant_words MATCH ? LIMIT ?)
"""
_MATCHING: Final = f"""
SELECT CAST(json_group_array(
    json_array(id, {SIZE}, iif(:has_names, substr(name, 1, {SEARCHED_CHARACTERS_MAX}), ''))
) AS BLOB)
{WITH_IDS.replace("?", ":ids")} AND (:tag IS NULL OR tag = :tag)
"""

_decode_matching = msgspec.json.Decoder(list[tuple[int, int, str]]).decode


class _Query(NamedTuple):
    """A query of FTS5. The names that it finds must be checked if it is not exact."""

    match: str
    is_exact: bool


def select_found(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants of a listing with words, as `PlantStore.list_plants` does."""
    query = _query(connection, listing.words or ())
    if query is None:
        return Page([], is_last=True)
    found, end = _find(connection, query, listing, listing.limit + 1)
    totals = accumulate(size for _, size in found[: listing.limit])
    fitting = sum(total <= PAGE_BYTES_MAX for total in totals)
    page = [id_ for id_, _ in found[: max(1, fitting)]]
    plants = select_by_id(connection, page)
    in_order = [plants[id_] for id_ in page if id_ in plants]
    if len(page) < len(found):
        return Page(in_order, is_last=False, searched_through=page[-1])
    return Page(in_order, is_last=end is None, searched_through=end)


def count_found(connection: apsw.Connection, listing: Listing) -> Count:
    """Return the number of plants of a listing with words."""
    query = _query(connection, listing.words or ())
    if query is None:
        return Count(0)
    if query.is_exact and listing.tag is None:
        plants = connection.execute(_COUNT, (query.match, COUNT_MAX + 1)).get
        return Count.up_to_max(plants)
    found, end = _find(connection, query, listing._replace(after=None), EXAMINED_MAX)
    return Count(len(found), is_exact=end is None)


def _query(connection: apsw.Connection, beginnings: tuple[str, ...]) -> _Query | None:
    """Return the query for plants that have all words. None if there are no such plants."""
    parts = []
    is_exact = True
    for beginning in beginnings:
        if len(beginning) <= _PREFIX_CHARACTERS_MAX:
            parts.append(f'"{beginning}" *')
            continue
        words = _words_from(connection, beginning)
        if not words:
            return None
        if len(words) <= _WORDS_MAX:
            alternatives = " OR ".join(f'"{word}"' for word in words)
            parts.append(f"({alternatives})")
        else:
            parts.append(f'"{beginning[:_PREFIX_CHARACTERS_MAX]}" *')
            is_exact = False
    return _Query(" AND ".join(parts), is_exact) if parts else None


def _words_from(connection: apsw.Connection, beginning: str) -> list[str]:
    """Return the words of the index with this beginning, at most one more than _WORDS_MAX."""
    connection.execute(MAKE_VOCABULARY)
    words: list[str] = []
    next_word = beginning
    while len(words) <= _WORDS_MAX:
        word = connection.execute(_NEXT_WORD, (next_word, f"{beginning}\U0010ffff")).get
        if word is None:
            break
        words.append(word)
        next_word = f"{word}\0"
    return words


def _find(
    connection: apsw.Connection, query: _Query, listing: Listing, number: int
) -> tuple[list[tuple[int, int]], int | None]:
    """Find the next plants of a listing.

    Returns:
        The ids and sizes of `number` plants or more, or of fewer if there are no more or too
        many were examined; and the id of the last plant examined, or None if there are no more.

    """
    needs_check = not query.is_exact or listing.tag is not None
    at_once = _EXAMINED_AT_ONCE if needs_check else number
    found: list[tuple[int, int]] = []
    after = listing.after
    examined_bytes = 0
    for _ in range(EXAMINED_MAX // _EXAMINED_AT_ONCE):
        bindings = {"match": query.match, "after": after, "limit": at_once}
        query_of_ids = candidates_query(is_descending=listing.is_descending, is_first=after is None)
        ids = decode_integers(connection.execute(query_of_ids, bindings).get)
        matching, read_bytes = _matching(connection, ids, query, listing)
        found += matching
        examined_bytes += read_bytes
        if len(ids) < at_once:
            return found, None
        after = ids[-1]
        if len(found) >= number or examined_bytes > EXAMINED_BYTES_MAX:
            break
    return found, after


def candidates_query(*, is_descending: bool, is_first: bool) -> str:
    """Return the SQL for the ids of the next plants that a query of FTS5 finds."""
    comparison, order = ("<", "rowid DESC") if is_descending else (">", "rowid")
    where = "" if is_first else f"AND rowid {comparison} :after"
    return f"""
SELECT json_group_array(id) FROM (
    SELECT rowid AS id FROM plant_words WHERE plant_words MATCH :match {where}
    ORDER BY {order} LIMIT :limit
)
"""


def _matching(
    connection: apsw.Connection, ids: list[int], query: _Query, listing: Listing
) -> tuple[list[tuple[int, int]], int]:
    """Return the ids and sizes of the plants among these that the listing has, in order.

    The second value is the size of the names that were compared.
    """
    bindings = {"ids": to_json(ids), "tag": listing.tag, "has_names": not query.is_exact}
    text = connection.execute(_MATCHING, bindings).get
    try:
        rows = _decode_matching(text)
    except UnicodeDecodeError:  # stored by another program
        rows = _decode_matching(text.decode(errors="replace"))
    words = () if query.is_exact else listing.words or ()
    found = [(id_, size) for id_, size, name in rows if not words or has_words(name, words)]
    return sorted(found, reverse=listing.is_descending), len(text) if words else 0
