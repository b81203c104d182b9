"""Reads pages of plants.

A page of all plants is one statement, unless it may have many plants or they are large. A page of a
tag or of a search takes more. If a page takes several statements, they read one snapshot.

Many plants are passed as one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes or a page takes a few statements,
whatever its size.

Searches
--------
FTS5 has an entry for each word, and one for each of its first one, three and four characters. It
reads an entry lazily, in order of id. So a search for a beginning of such a length costs as much
as the page that it fills. Another beginning is replaced by the words of the index that begin with
it. If there are too many of these words, the search uses only as many of the first characters as
have an entry, and the names that it finds are compared with the whole beginning.

A tag is a word of the index, too. Plants that are found by it are compared with the tag, because
two tags that begin with the same thousand characters have the same word.

Such a search examines a limited number of plants for a page. The page may then have fewer plants
than requested, and the next page continues.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from plantstore.listings import COUNT_MAX, PAGE_BYTES_MAX, Count, Listing, Page
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.words import SEARCHED_CHARACTERS_MAX, has_words

# Plants of a listing that are read at once, if their names and tags have at most READ_BYTES_MAX.
# Otherwise fewer are read, so that no page costs much more than it holds.
READ_AT_ONCE: Final = 256
READ_BYTES_MAX: Final = 2 * PAGE_BYTES_MAX

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
ARRAY: Final = "json_group_array(json_array(id, name, tag))"
PLANTS: Final = f"CAST({ARRAY} AS BLOB)"
WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"

_BYTES: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"
_IS_SMALL: Final = f"(:limit = 1 OR coalesce(bytes, 0) <= {READ_BYTES_MAX})"

_encode = msgspec.json.Encoder().encode
_decode_plants = msgspec.json.Decoder(list[tuple[int, str, str | None]]).decode


def to_json(values: Sequence[Any]) -> str:
    """Return plants, integers or rows as a JSON text."""
    return _encode(values).decode()


def fitting(plants: list[NewPlant]) -> list[NewPlant]:
    """Return the first plants, as many as fit on a page, and at least one if there is one."""
    if sum(len(plant.name) + len(plant.tag or "") for plant in plants) * 4 <= PAGE_BYTES_MAX:
        return plants  # a character has at most four bytes
    totals = accumulate(len(f"{plant.name}{plant.tag or ''}".encode()) for plant in plants)
    return plants[: max(1, sum(total <= PAGE_BYTES_MAX for total in totals))]


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    text = connection.execute(f"SELECT {PLANTS} {WITH_IDS}", (to_json(ids),)).get
    return {plant.id: plant for plant in plants_from_json(text)}


def plants_from_json(text: bytes) -> list[NewPlant]:
    """Parse the value of PLANTS, or of ARRAY as bytes.

    An invalid byte becomes U+FFFD; a check finds it.
    """
    try:
        found = _decode_plants(text)
    except UnicodeDecodeError:
        found = _decode_plants(text.decode(errors="replace"))
    return [NewPlant(*row) for row in found]


def select_page(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, as `PlantStore.list_plants` does."""
    if listing.is_everything and listing.limit < READ_AT_ONCE:
        bindings = {"after": _after(listing), "limit": listing.limit + 1}
        [(text, total)] = connection.execute(page_query(listing), bindings)
        if text is not None:
            plants = plants_from_json(text)
            return _page(listing, plants, is_end=len(plants) <= listing.limit, total=total)
    with _snapshot(connection):
        if listing.is_everything:
            return _select_any(connection, listing)
        return select_found(connection, listing)


def _select_any(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, with any tags and names."""
    found, is_end, total = _next(connection, listing)
    while not is_end and len(found) <= listing.limit and _bytes_min(found) <= PAGE_BYTES_MAX:
        left = listing.limit - len(found)
        more, is_end, _ = _next(connection, listing._replace(after=found[-1].id, limit=left))
        found += more
    return _page(listing, found, is_end=is_end, total=total)


def _page(listing: Listing, found: list[NewPlant], *, is_end: bool, total: int | None) -> Page:
    """Return the page with as many of the plants as fit."""
    on_page = fitting(found[: listing.limit])
    count = None if total is None else listing.total_of(total)
    return Page(on_page, is_last=is_end and len(on_page) == len(found), total=count)


def _after(listing: Listing) -> int:
    """Return the id with which, or after which, the page begins."""
    first = ID_MAX if listing.is_descending else ID_MIN
    return first if listing.after is None else listing.after


def _next(connection: apsw.Connection, listing: Listing) -> tuple[list[NewPlant], bool, int | None]:
    """Return the next plants, one more than the page may have; or fewer if they are large.

    Returns:
        The plants, whether there are no more, and the total if it is requested.

    """
    bindings = {"after": _after(listing)}
    at_once, (text, total) = _read(connection, page_query(listing), bindings, listing.limit + 1)
    plants = plants_from_json(text)
    return plants, len(plants) < at_once, total


def _read(
    connection: apsw.Connection, query: str, bindings: dict[str, Any], limit: int
) -> tuple[int, tuple[Any, ...]]:
    """Run a query for the next plants. While they are too large, ask for fewer.

    Returns:
        The number of plants that it asked for, and the row.

    """
    at_once = min(limit, READ_AT_ONCE)
    while True:
        [row] = connection.execute(query, bindings | {"limit": at_once})
        if row[0] is not None:
            return at_once, row
        at_once = max(1, at_once // 4)


def _bytes_min(plants: list[NewPlant]) -> int:
    return sum(len(plant.name) for plant in plants)


def page_query(listing: Listing) -> str:
    """Return the SQL for a page of all plants, and for the total. An index finds the plants.

    The page is NULL if its plants are too large. SQLite knows their sizes without reading them.
    """
    comparison = "<" if listing.is_descending else ">"
    equal = "=" if listing.after is None else ""
    where = f"id {comparison}{equal} :after"
    total = "SELECT plants FROM totals" if listing.has_total else "NULL"
    order = "id DESC" if listing.is_descending else "id"
    following = f"FROM plants WHERE {where} ORDER BY {order} LIMIT :limit"
    return f"""
SELECT CASE WHEN {_IS_SMALL} THEN (
    SELECT {PLANTS} FROM (SELECT id, name, tag {following})
) END, ({total})
FROM (SELECT sum(bytes) AS bytes FROM (SELECT {_BYTES} AS bytes {following}))
"""


@contextlib.contextmanager
def _snapshot(connection: apsw.Connection) -> Iterator[None]:
    """Read one snapshot during the block."""
    if not connection.getautocommit():  # an export has one already
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if not connection.getautocommit():  # SQLite ends it by itself after some errors
            connection.execute("COMMIT")


# Maximum number of plants that a search examines for one page.
EXAMINED_MAX: Final = COUNT_MAX

# Bytes of plants after which a search ends. They limit the memory and the time for long names.
EXAMINED_BYTES_MAX: Final = 512 * 1024

# The lengths of beginnings that have entries of their own. They are those of `prefix` in the
# migration that creates the table.
_INDEXED_LENGTHS: Final = (1, 3, 4)

# Maximum number of words that replace the beginning of a word.
_WORDS_MAX: Final = 32

# A virtual table that lists the words of the index.
MAKE_VOCABULARY: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, plant_words, instance)
"""

# For each beginning, the words of the index with it, at most one more than _WORDS_MAX. Each step
# finds one word: the table would list each word once for each plant that has it. No word has
# U+0001, which comes before all characters of words.
_WORDS: Final = f"""
WITH RECURSIVE found (beginning, number, word) AS (
    SELECT value, 0, (
        SELECT term FROM temp.vocabulary WHERE term >= value AND term < value || :last LIMIT 1
    )
    FROM json_each(:beginnings)
    UNION ALL
    SELECT beginning, number + 1, (
        SELECT term FROM temp.vocabulary
        WHERE term >= word || char(1) AND term < beginning || :last LIMIT 1
    )
    FROM found WHERE word IS NOT NULL AND number < {_WORDS_MAX}
)
SELECT json_group_array(json_array(beginning, word)) FROM found WHERE word IS NOT NULL
"""
_LAST_CHARACTER: Final = "\U0010ffff"

_COUNT: Final = """
SELECT count(*) FROM (SELECT 1 FROM plant_words WHERE plant_words MATCH ? LIMIT ?)
"""

_IS_WANTED: Final = "name IS NOT NULL AND (:tag IS NULL OR tag = :tag) AS is_wanted"

# The first character of the words of tags. It is for private use (Unicode §23.5), so no name has
# a word with it.
_TAG_MARK: Final = "\ue000"
_TAG_DIGITS: Final = 32

_decode_words = msgspec.json.Decoder(list[tuple[str, str]]).decode


class _Query(NamedTuple):
    """A query of FTS5.

    Attributes:
        match: the query.
        is_exact: whether each plant that it finds has the tag and the words.

    """

    match: str
    is_exact: bool


def prepare_searches(connection: apsw.Connection) -> None:
    """Prepare a connection for searches."""
    connection.execute(MAKE_VOCABULARY)


def tag_word(tag: str) -> str:
    """Return the word of the index for a tag: a mark and the first 128 bits of a SHA-256."""
    return _tag_word(tag[:SEARCHED_CHARACTERS_MAX])


@lru_cache(maxsize=1024)
def _tag_word(beginning: str) -> str:
    digest = hashlib.sha256(beginning.encode())
    return _TAG_MARK + digest.hexdigest()[:_TAG_DIGITS]


def select_found(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants of a listing with words or a tag, as `PlantStore.list_plants` does."""
    query = _query(connection, listing)
    if query is None:
        return Page([], is_last=True, total=Count(0) if listing.has_total else None)
    found, end = _find(connection, query, listing, listing.limit + 1)
    total = _count(connection, query, listing) if listing.has_total else None
    on_page = fitting(found[: listing.limit])
    if len(on_page) < len(found):
        return Page(on_page, is_last=False, searched_through=on_page[-1].id, total=total)
    return Page(on_page, is_last=end is None, searched_through=end, total=total)


def _count(connection: apsw.Connection, query: _Query, listing: Listing) -> Count:
    if query.is_exact:
        return Count.up_to_max(connection.execute(_COUNT, (query.match, COUNT_MAX + 1)).get)
    found, end = _find(connection, query, listing._replace(after=None), EXAMINED_MAX)
    return Count(len(found), is_exact=end is None)


def _query(connection: apsw.Connection, listing: Listing) -> _Query | None:
    """Return the query for plants that have the tag and all words. None if there are none."""
    beginnings, tag = listing.words, listing.tag
    if beginnings == ():
        return None
    beginnings = beginnings or ()
    words = _words(connection, [each for each in beginnings if len(each) not in _INDEXED_LENGTHS])
    parts = [] if tag is None else [f'"{tag_word(tag)}"']
    is_exact = tag is None or len(tag) < SEARCHED_CHARACTERS_MAX
    for beginning in beginnings:
        alternatives = words.get(beginning)
        if alternatives is None:
            parts.append(f'"{beginning}" *')
        elif not alternatives:
            return None
        elif len(alternatives) <= _WORDS_MAX:
            quoted = " OR ".join(f'"{word}"' for word in alternatives)
            parts.append(f"({quoted})")
        else:
            indexed = max(length for length in _INDEXED_LENGTHS if length < len(beginning))
            parts.append(f'"{beginning[:indexed]}" *')
            is_exact = False
    return _Query(" AND ".join(parts), is_exact)


def _words(connection: apsw.Connection, beginnings: Iterable[str]) -> dict[str, list[str]]:
    """Return the words of the index with these beginnings, at most one more than _WORDS_MAX."""
    words: dict[str, list[str]] = {beginning: [] for beginning in beginnings}
    if words:
        bindings = {"beginnings": to_json(list(words)), "last": _LAST_CHARACTER}
        for beginning, word in _decode_words(connection.execute(_WORDS, bindings).get):
            words[beginning].append(word)
    return words


def _find(
    connection: apsw.Connection, query: _Query, listing: Listing, number: int
) -> tuple[list[NewPlant], int | None]:
    """Find the next plants of a listing.

    Returns:
        `number` plants or more, or fewer if there are no more or too many were examined; and
        the id of the last plant examined, or None if there are no more.

    """
    words = () if query.is_exact else listing.words or ()
    after = listing.after
    found: list[NewPlant] = []
    at_once = READ_AT_ONCE if words else number  # most of the plants may have other words
    examined = examined_bytes = 0
    while examined < EXAMINED_MAX:
        statement = examine_query(is_descending=listing.is_descending, is_first=after is None)
        bindings = {"match": query.match, "tag": listing.tag, "after": after}
        at_once, (text, number_read, last) = _read(connection, statement, bindings, at_once)
        plants = plants_from_json(text)
        found += [plant for plant in plants if has_words(plant.name, words)] if words else plants
        if number_read < at_once:
            return found, None
        after = last
        examined += number_read
        examined_bytes += len(text)
        if len(found) >= number or examined_bytes > EXAMINED_BYTES_MAX:
            break
    return found, after


def examine_query(*, is_descending: bool, is_first: bool) -> str:
    """Return the SQL for the next plants that a query of FTS5 finds.

    The row has those of them that have the tag, or NULL if they are too large; how many it found,
    and the last id.
    """
    comparison, order, last = ("<", "DESC", "min") if is_descending else (">", "ASC", "max")
    where = "" if is_first else f"AND rowid {comparison} :after"
    return f"""
WITH found AS MATERIALIZED (
    SELECT rowid AS id FROM plant_words WHERE plant_words MATCH :match {where}
    ORDER BY rowid {order} LIMIT :limit
)
SELECT CASE WHEN {_IS_SMALL} THEN (
    SELECT CAST({ARRAY} FILTER (WHERE is_wanted) AS BLOB)
    FROM (SELECT id, name, tag, {_IS_WANTED} FROM found LEFT JOIN plants USING (id))
) END, number, last
FROM (
    SELECT count(*) AS number, {last}(id) AS last, sum({_BYTES}) AS bytes
    FROM found LEFT JOIN plants USING (id)
)
"""
