"""Finds plants by words, by a tag, and in order by name, with FTS5.

A page takes several statements, which read one snapshot.

FTS5 has an entry for each word, and one for each of its first one, three and four characters. It
reads an entry lazily, in order of id. So a search for a beginning of such a length costs as much
as the page that it fills. Another beginning is replaced by the words of the index that begin with
it. If there are too many of these words, the search uses only as many of the first characters as
have an entry, and the names that it finds are compared with the whole beginning.

A tag is a word of the index, too. Plants that are found by it are compared with the tag, because
another program may have changed the tag without the index.

The key of a name is another word. FTS5 can list its words in order, from any one on, so it lists
all plants by name. What a search finds is sorted by the keys in the table of plants.

Such a search examines a limited number of plants for a page. The page may then have fewer plants
than requested, and the next page continues. An export finds, and sorts, the ids of its plants once.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import apsw
import msgspec

from plantstore.listings import (
    COUNT_MAX,
    PAGE_BYTES_MAX,
    SCAN_PLANTS_MAX,
    Count,
    Listing,
    Page,
    Place,
    PlantsPage,
    scan,
)
from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.sqlite.sqlite_pages import (
    ARRAY,
    BYTES,
    FITS,
    NUMBER_THAT_FITS,
    after_or_from,
    count_plants,
    first_id,
    from_json,
    plants_from_json,
    read_fitting,
    select_page_of_all,
    snapshot,
    to_json,
)
from plantstore.storage.sqlite.word_index import (
    KEY_MARK,
    require_complete,
    tag_word,
)
from plantstore.words import SEARCHED_CHARACTERS_MAX, has_words

_KEYS: Final = msgspec.json.Decoder(dict[int, str])
_IDS: Final = msgspec.json.Decoder(list[int])

# Maximum number of plants that a search examines for one page, and in one statement, and of the
# bytes of their names and tags. So a page takes a few milliseconds of CPU time at most.
EXAMINED_MAX: Final = 256
EXAMINED_BYTES_MAX: Final = 16 * 1024

# The same in order by name. To list words in order takes longer.
EXAMINED_BY_NAME_MAX: Final = EXAMINED_MAX // 2

# Maximum number of plants that are sorted by name for one page. This takes five milliseconds,
# without the interpreter lock. The key of a plant is stored behind its name and tag. So if some are
# longer than LONG_BYTES, they may have at most SORTED_BYTES_MAX together.
SORTED_MAX: Final = 10_000
SORTED_BYTES_MAX: Final = 128 * 1024
LONG_BYTES: Final = 1024

# Maximum number of plants that a search finds at once for an export. Their ids are in memory while
# it runs.
SCAN_FOUND_MAX: Final = 100_000

# The lengths of beginnings that have entries of their own. They are those of `prefix` in the
# migration that creates the table.
_INDEXED_LENGTHS: Final = (1, 3, 4)

# Maximum number of words that the index is asked for, to replace the beginnings of a search.
_WORDS_MAX: Final = 8

# Virtual tables that list the words of the index, with each of their plants, or with their number.
MAKE_VOCABULARY: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, plant_words, instance);
CREATE VIRTUAL TABLE IF NOT EXISTS temp.counts USING fts5vocab(main, plant_words, row)
"""

# One word, and not several: the table would list each word once for each plant that has it.
_NEXT_WORD: Final = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? LIMIT 1"

# No word has U+0001, which comes before all characters of words.
_FIRST_CHARACTER: Final = "\x01"
LAST_CHARACTER: Final = "\U0010ffff"

_COUNT: Final = """
SELECT count(*) FROM (SELECT 1 FROM plant_words WHERE plant_words MATCH ? LIMIT ?)
"""

# The bytes of the long names and tags of the plants that a query finds.
_LONG_BYTES: Final = f"""
SELECT total({BYTES}) FROM plant_words CROSS JOIN plants ON id = plant_words.rowid
WHERE plant_words MATCH ? AND {BYTES} > {LONG_BYTES}
"""

# Whether a plant has the tag, and whether it may have a word. Names that are not ASCII, or have an
# apostrophe, are left to `has_words`.
_HAS_TAG: Final = "name IS NOT NULL AND (:any_tag OR tag IS :tag)"
_SEARCHED: Final = f"substr(name, 1, {SEARCHED_CHARACTERS_MAX})"
_IS_WANTED: Final = f"""
{_HAS_TAG} AND (
    :word IS NULL
    OR octet_length({_SEARCHED}) > length({_SEARCHED})
    OR instr(lower({_SEARCHED}), :word)
        AND ' ' || lower({_SEARCHED}) GLOB '*[^a-z0-9]' || :word || '*'
    OR instr({_SEARCHED}, '''') OR instr({_SEARCHED}, '`')
)
"""


class _Query(NamedTuple):
    """A query of FTS5.

    Attributes:
        match: the query.
        is_exact: whether each plant that it finds has the tag and the words.

    """

    match: str
    is_exact: bool


def prepare_searches(connection: apsw.Connection) -> None:
    """Prepare a connection for searches, and for counts of tags."""
    connection.execute(MAKE_VOCABULARY)


def select_page(connection: apsw.Connection, listing: Listing) -> PlantsPage:
    """Return the next plants, as `PlantStore.list_plants` does."""
    if listing.place is None and listing.is_everything:
        return select_page_of_all(connection, listing)
    with snapshot(connection):
        return _select_found(connection, listing)


def _select_found(connection: apsw.Connection, listing: Listing) -> PlantsPage:
    """Return the next plants of a listing with words or a tag, as `PlantStore.list_plants` does."""
    require_complete(connection)
    query = _query(connection, listing)
    if query is None:
        return Page([], None, is_last=True, total=Count(0) if listing.has_total else None)
    examine = _examined if listing.place is None else _examined_by_name
    found, end, keys = examine(connection, query, listing, listing.limit + 1)
    if len(found) > listing.limit:
        found = found[: listing.limit]
        last = found[-1].id
        end = last if listing.place is None else Place(keys[last], last)
    total = _count(connection, query, listing) if listing.has_total else None
    return Page(found, end, is_last=end is None, total=total)


def _count(connection: apsw.Connection, query: _Query, listing: Listing) -> Count:
    if listing.is_everything:
        return Count(count_plants(connection))
    if query.is_exact:
        return Count.up_to_max(_matches(connection, query))
    listing = listing._replace(after=None, place=None)
    part = _examined(connection, query, listing, EXAMINED_MAX)
    return Count(len(part.plants), is_exact=part.end is None)


def _matches(connection: apsw.Connection, query: _Query, most: int = COUNT_MAX) -> int:
    """Return how many plants a query finds, at most one more than `most`."""
    plants: int = connection.execute(_COUNT, (query.match, most + 1)).get
    return plants


def _query(
    connection: apsw.Connection, listing: Listing, *, may_collect: bool = False
) -> _Query | None:
    """Return the query for plants that have the tag and all words. None if there are none.

    Args:
        connection: to the database.
        listing: with a tag or words.
        may_collect: whether FTS5 may collect all plants of one beginning that has many words, and
            no entry of its own, before it returns the first one.

    """
    if listing.words == ():
        return None
    has_tag = listing.tag is not None or listing.is_untagged
    parts = [f'"{tag_word(listing.tag)}"'] if has_tag else []
    is_exact = True
    left = _WORDS_MAX
    for beginning in listing.words or ():
        if len(beginning) in _INDEXED_LENGTHS:
            parts.append(f'"{beginning}" *')
            continue
        words = _words(connection, beginning, left)
        if left and not words:
            return None
        if len(words) < left:
            quoted = " OR ".join(f'"{word}"' for word in words)
            parts.append(f"({quoted})")
        elif may_collect:
            parts.append(f'"{beginning}" *')
            may_collect = False
        else:
            indexed = max(length for length in _INDEXED_LENGTHS if length < len(beginning))
            parts.append(f'"{beginning[:indexed]}" *')
            is_exact = False
        left = max(left - len(words) - 1, 0)
    return _Query(" AND ".join(dict.fromkeys(parts)), is_exact)


def _words(connection: apsw.Connection, beginning: str, number: int) -> list[str]:
    """Return the words of the index with this beginning, at most `number`."""
    words: list[str] = []
    first, end = beginning, beginning + LAST_CHARACTER
    while len(words) < number:
        word = connection.execute(_NEXT_WORD, (first, end)).get
        if word is None:
            break
        words.append(word)
        first = word + _FIRST_CHARACTER
    return words


class _Examined(NamedTuple):
    """Plants that a query finds, and that were examined by one statement.

    Attributes:
        plants: those that belong to the listing.
        end: the id or the place of the last one examined; None if there are no more.
        keys: those of the names of all examined plants by their ids, if that is the order.

    """

    plants: list[NewPlant]
    end: int | Place | None
    keys: dict[int, str]


def _examined(
    connection: apsw.Connection, query: _Query, listing: Listing, number: int
) -> _Examined:
    """Examine the next plants that a query finds: `number` of them if it is exact."""
    words = () if query.is_exact else listing.words or ()
    bindings = _bindings(listing, words) | {"match": query.match, "after": first_id(listing)}
    bindings["limit"] = number if query.is_exact else EXAMINED_MAX
    wanted = _IS_WANTED if words else _HAS_TAG  # which is faster
    text, examined, last = read_fitting(
        connection, examine_query(listing, wanted), bindings, _bytes_max(query.is_exact)
    )
    return _Examined(_with_words(text, words), last if examined == bindings["limit"] else None, {})


def _bindings(listing: Listing, words: Sequence[str] = ()) -> dict[str, Any]:
    any_tag = listing.tag is None and not listing.is_untagged
    return {"tag": listing.tag, "any_tag": any_tag, "word": max(words, key=len, default=None)}


def _bytes_max(is_exact: bool) -> int:  # noqa: FBT001 (that of a query)
    return PAGE_BYTES_MAX if is_exact else EXAMINED_BYTES_MAX


def _with_words(text: bytes, words: Sequence[str]) -> list[NewPlant]:
    plants = plants_from_json(text)
    return [plant for plant in plants if has_words(plant.name, words)] if words else plants


def examine_query(listing: Listing, wanted: str = _IS_WANTED) -> str:
    """Return the SQL for the next plants that a query of FTS5 finds.

    Its row has those of them that are `wanted`, or how many to examine if not all of these fit on a
    page; how many it found; and the last id of these.
    """
    last = "min(id)" if listing.is_descending else "max(id)"
    return _examine(_found(listing), last, wanted)


def _found(listing: Listing) -> str:
    """Return the SQL for the next ids that a query of FTS5 finds."""
    return f"""
    SELECT rowid AS id FROM plant_words
    WHERE plant_words MATCH :match AND rowid {after_or_from(listing)} :after
    ORDER BY rowid {"DESC" if listing.is_descending else "ASC"} LIMIT :limit
"""


def _examine(found: str, last: str, wanted: str = _IS_WANTED) -> str:
    plants = "FROM found LEFT JOIN plants USING (id)"
    return f"""
WITH found AS MATERIALIZED ({found})
SELECT CASE WHEN {FITS} THEN (
    SELECT CAST({ARRAY} FILTER (WHERE {wanted}) AS BLOB) {plants}
) ELSE ({NUMBER_THAT_FITS.format(f"(SELECT {BYTES} AS bytes {plants})")}) END, number, last
FROM (SELECT sum({BYTES}) AS bytes, count(*) AS number, {last} AS last {plants})
"""


_IDS_AND_KEYS: Final = "CAST(json_group_object(id, key) AS BLOB)"


def examine_next_query(place: Place) -> str:
    """Return the SQL for the plants after a place, in order by name.

    Its row has the values of that of `examine_query`, but the keys by ids instead of the last id.
    """
    first = f"'{KEY_MARK}' || :key"
    following = f"""
    SELECT doc AS id, substr(term, {len(KEY_MARK) + 1}) AS key FROM temp.vocabulary
    WHERE term >= {{}} AND term < '{KEY_MARK}{LAST_CHARACTER}' LIMIT :limit
"""
    if place.id < ID_MIN:
        return _examine(following.format(first), _IDS_AND_KEYS)
    # The list of the index begins with the first plant of a key. A query begins after any id.
    found = f"""
    SELECT * FROM (
        SELECT rowid AS id, :key AS key FROM plant_words
        WHERE plant_words MATCH {first} AND rowid > :after ORDER BY rowid LIMIT :limit
    ) UNION ALL
    SELECT * FROM ({following.format(f"{first} || '{_FIRST_CHARACTER}'")}) LIMIT :limit
"""
    return _examine(found, _IDS_AND_KEYS)


def _sorted(place: Place, key: str = "name_key") -> str:
    """Return the SQL for the next ids and keys that a query of FTS5 finds, in order by name.

    First come plants whose `key` is NULL. A plant without a `name_key`, which another program has
    removed, is left out.
    """
    comparison = ">" if place.id >= ID_MIN else ">="
    or_far = "" if key == "name_key" else "OR key IS NULL"
    return f"""
    SELECT id, {key} AS key FROM plant_words CROSS JOIN plants ON id = plant_words.rowid
    WHERE plant_words MATCH :match AND ((key, id) {comparison} (:key, :after) {or_far})
    ORDER BY key, id LIMIT :limit
"""


# The key of a plant, or NULL if it is behind a long name or tag.
_NEAR_KEY: Final = f"iif({BYTES} <= {LONG_BYTES}, name_key, NULL)"


def _sort(
    connection: apsw.Connection, query: _Query, place: Place, bindings: dict[str, Any]
) -> bytes | None:
    """Return the next ids and keys that a query finds, as `EXAMINE_SORTED` takes them.

    Return None if they are too many, or have too many bytes.
    """
    if _matches(connection, query, SORTED_MAX) > SORTED_MAX:
        return None
    sorted_: bytes
    for key in (_NEAR_KEY, "name_key"):
        sort = f"""
SELECT jsonb_group_array(jsonb_array(id, key)), count(*) = count(key) FROM ({_sorted(place, key)})
"""
        [(sorted_, has_all_keys)] = connection.execute(sort, bindings)
        if has_all_keys or key == "name_key":
            return sorted_
        if connection.execute(_LONG_BYTES, (query.match,)).get > SORTED_BYTES_MAX:
            break
    return None


# Its row has the values of that of `examine_next_query`, for the result of `_sort`.
EXAMINE_SORTED: Final = _examine(
    "SELECT value->>0 AS id, value->>1 AS key FROM jsonb_each(:sorted) LIMIT :limit",
    _IDS_AND_KEYS,
)


_EXAMINE_IDS: Final = _examine("SELECT value AS id FROM json_each(:ids) LIMIT :limit", "NULL")


def scan_pages(connection: apsw.Connection, listing: Listing) -> Iterator[list[NewPlant]]:
    """Yield the plants of all pages of a listing, whatever its limit is."""
    if not listing.is_everything:
        require_complete(connection)
        query = _query(connection, listing, may_collect=True)
        ids = _find_ids(connection, query, listing) if query else []
        if query and len(ids) <= SCAN_FOUND_MAX:
            yield from _scan_ids(connection, query, listing, ids)
            return
    yield from scan(partial(select_page, connection), listing)


def _find_ids(connection: apsw.Connection, query: _Query, listing: Listing) -> list[int]:
    """Return the ids of what a query finds, in order, or more than SCAN_FOUND_MAX of them."""
    bindings: dict[str, Any] = {"match": query.match, "limit": SCAN_FOUND_MAX + 1}
    if listing.place is None or _matches(connection, query, SCAN_FOUND_MAX) > SCAN_FOUND_MAX:
        found = _found(listing)
        bindings["after"] = first_id(listing)
    else:
        found = _sorted(listing.place)
        bindings |= _bindings_of(listing.place)
    found = f"SELECT CAST(json_group_array(id) AS BLOB) FROM ({found})"
    return from_json(_IDS, connection.execute(found, bindings).get)


def _scan_ids(
    connection: apsw.Connection, query: _Query, listing: Listing, ids: list[int]
) -> Iterator[list[NewPlant]]:
    """Yield the plants with these ids that belong to a listing, and remove the ids."""
    words = () if query.is_exact else listing.words or ()
    bindings = _bindings(listing, words)
    while ids:
        page = bindings | {"ids": to_json(ids[:SCAN_PLANTS_MAX]), "limit": SCAN_PLANTS_MAX}
        text, examined, _ = read_fitting(connection, _EXAMINE_IDS, page)
        yield _with_words(text, words)
        del ids[:examined]


def _examined_by_name(
    connection: apsw.Connection, query: _Query, listing: Listing, number: int
) -> _Examined:
    """Examine the next plants in order by name, as `_examined` does.

    Those that the query finds are sorted, unless they are too many: then all plants are examined.
    """
    place = listing.place or Place()
    bindings = _bindings_of(place) | {"match": query.match}
    bindings["limit"] = number if query.is_exact else EXAMINED_BY_NAME_MAX
    sorted_ = None if listing.is_everything else _sort(connection, query, place, bindings)
    is_exact = query.is_exact and (listing.is_everything or sorted_ is not None)
    words = () if is_exact else listing.words or ()
    at_once = number if is_exact else EXAMINED_BY_NAME_MAX
    bindings |= _bindings(listing, words) | {"sorted": sorted_, "limit": at_once}
    examine = examine_next_query(place) if sorted_ is None else EXAMINE_SORTED
    text, examined, by_id = read_fitting(connection, examine, bindings, _bytes_max(is_exact))
    keys = from_json(_KEYS, by_id)
    end = None
    if examined == bindings["limit"]:
        last, key = [*keys.items()][-1]
        end = Place(key, last)
    return _Examined(_with_words(text, words), end, keys)


def _bindings_of(place: Place) -> dict[str, Any]:
    return {"key": place.key, "after": max(place.id, ID_MIN)}
