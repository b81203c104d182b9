"""Reads pages of plants.

A page is read in parts, each by one statement, from one snapshot. It ends with the part that fills
it: with plants, or with bytes if they are large. Most pages have one part.

The plants of a part are one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes or a page takes a few statements.

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
from typing import Any, Final, NamedTuple, TypeVar

import apsw
import msgspec

from plantstore.errors import StoreUnavailableError
from plantstore.listings import COUNT_MAX, PAGE_BYTES_MAX, Count, Listing, Page
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.words import SEARCHED_CHARACTERS_MAX, has_words

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
ARRAY: Final = "json_group_array(json_array(id, name, tag))"
PLANTS: Final = f"CAST({ARRAY} AS BLOB)"
WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"

# Maximum number of plants in a part of a page. It bounds the size of a page: PAGE_BYTES_MAX and so
# many plants of the largest size.
PART_PLANTS_MAX: Final = 101

_encode = msgspec.json.Encoder().encode
_PLANTS: Final = msgspec.json.Decoder(list[tuple[int, str, str | None]])

ValueT = TypeVar("ValueT")


def to_json(values: Sequence[Any]) -> str:
    """Return plants, integers or rows as a JSON text."""
    return _encode(values).decode()


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    text = connection.execute(f"SELECT {PLANTS} {WITH_IDS}", (to_json(ids),)).get
    return {plant.id: plant for plant in plants_from_json(text)}


def plants_from_json(text: bytes) -> list[NewPlant]:
    """Parse the value of PLANTS, or of ARRAY as bytes."""
    return [NewPlant(*row) for row in from_json(_PLANTS, text)]


def from_json(decoder: msgspec.json.Decoder[ValueT], text: bytes) -> ValueT:
    """Parse JSON with texts of plants. An invalid byte becomes U+FFFD; a check finds it."""
    try:
        return decoder.decode(text)
    except UnicodeDecodeError:  # stored by another program
        return decoder.decode(text.decode(errors="replace"))


def select_page(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, as `PlantStore.list_plants` does."""
    has_one_part = listing.is_everything and listing.limit < PART_PLANTS_MAX
    is_statement = has_one_part and not listing.has_total
    with contextlib.nullcontext() if is_statement else _snapshot(connection):
        if not listing.is_everything:
            return _select_found(connection, listing)
        plants, end = _fill(_following(connection, listing), listing.limit)
        total = Count(count_plants(connection)) if listing.has_total else None
        return Page(plants, is_last=end is None, total=total)


class _Part(NamedTuple):
    """Some plants of a listing.

    Attributes:
        plants: in the order of the listing.
        size: of the plants, in bytes of JSON.
        end: the id after which the next part begins; None if there is none.

    """

    plants: list[NewPlant]
    size: int
    end: int | None


def _fill(parts: Iterable[_Part], limit: int) -> tuple[list[NewPlant], int | None]:
    """Return the plants of a page, and the id after which the next one begins, if there is one."""
    plants: list[NewPlant] = []
    bytes_left, end = PAGE_BYTES_MAX, None
    for part in parts:
        plants += part.plants
        bytes_left -= part.size
        end = part.end
        if len(plants) > limit:
            return plants[:limit], plants[limit - 1].id
        if bytes_left < 0:
            break
    return plants, end


def _following(connection: apsw.Connection, listing: Listing) -> Iterator[_Part]:
    """Yield the plants of a listing of all plants."""
    at_once = min(listing.limit + 1, PART_PLANTS_MAX)
    end: int | None = _after(listing)
    while end is not None:
        text = connection.execute(page_query(listing), {"after": end, "limit": at_once}).get
        plants = plants_from_json(text)
        end = plants[-1].id if len(plants) == at_once else None
        yield _Part(plants, len(text), end)
        listing = listing._replace(after=end)


def count_plants(connection: apsw.Connection) -> int:
    """Return the recorded number of plants."""
    plants: int = connection.execute("SELECT plants FROM totals").get
    return plants


def _after(listing: Listing) -> int:
    """Return the id with which, or after which, the page begins."""
    first = ID_MAX if listing.is_descending else ID_MIN
    return first if listing.after is None else listing.after


def _comparison(listing: Listing) -> str:
    comparison = "<" if listing.is_descending else ">"
    return f"{comparison}=" if listing.after is None else comparison


def page_query(listing: Listing) -> str:
    """Return the SQL for the next plants of all."""
    order = "id DESC" if listing.is_descending else "id"
    return f"""
SELECT {PLANTS} FROM (
    SELECT id, name, tag FROM plants WHERE id {_comparison(listing)} :after
    ORDER BY {order} LIMIT :limit
)
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

# The lengths of beginnings that have entries of their own. They are those of `prefix` in the
# migration that creates the table.
_INDEXED_LENGTHS: Final = (1, 3, 4)

# Maximum number of words that replace the beginning of a word.
_WORDS_MAX: Final = 32

# A virtual table that lists the words of the index.
MAKE_VOCABULARY: Final = """
CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, plant_words, instance)
"""

# One word, and not several: the table would list each word once for each plant that has it.
_NEXT_WORD: Final = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? LIMIT 1"

# No word has U+0001, which comes before all characters of words.
_FIRST_CHARACTER: Final = "\x01"
_LAST_CHARACTER: Final = "\U0010ffff"

_COUNT: Final = """
SELECT count(*) FROM (SELECT 1 FROM plant_words WHERE plant_words MATCH ? LIMIT ?)
"""

# The first plant that is not in the index of words yet. None of those after it is in the index.
FIRST: Final = "SELECT first FROM plants_to_index"

_IS_WANTED: Final = "name IS NOT NULL AND (:tag IS NULL OR tag = :tag) AS is_wanted"

# The first character of the words of tags. It is for private use (Unicode §23.5), so no name has
# a word with it.
_TAG_MARK: Final = "\ue000"
_TAG_DIGITS: Final = 32


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


def is_complete(connection: apsw.Connection) -> bool:
    """Return whether the index of words has all plants."""
    return connection.execute(FIRST).get is None


def _select_found(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants of a listing with words or a tag, as `PlantStore.list_plants` does."""
    if not is_complete(connection):
        raise StoreUnavailableError(
            "The index of words is not complete, so nothing can be searched; wait until `plantstore"
            " reindex` or `plantstore migrate` ends, or run it again"
        )
    query = _query(connection, listing)
    if query is None:
        return Page([], is_last=True, total=Count(0) if listing.has_total else None)
    plants, end = _fill(_examined(connection, query, listing), listing.limit)
    total = _count(connection, query, listing) if listing.has_total else None
    return Page(plants, is_last=end is None, searched_through=end, total=total)


def _count(connection: apsw.Connection, query: _Query, listing: Listing) -> Count:
    if query.is_exact:
        return Count.up_to_max(connection.execute(_COUNT, (query.match, COUNT_MAX + 1)).get)
    found, end = 0, None
    for part in _examined(connection, query, listing._replace(after=None)):
        found += len(part.plants)
        end = part.end
    return Count(found, is_exact=end is None)


def _query(connection: apsw.Connection, listing: Listing) -> _Query | None:
    """Return the query for plants that have the tag and all words. None if there are none."""
    if listing.words == ():
        return None
    tag = listing.tag
    parts = [] if tag is None else [f'"{tag_word(tag)}"']
    is_exact = tag is None or len(tag) < SEARCHED_CHARACTERS_MAX
    for beginning in listing.words or ():
        if len(beginning) in _INDEXED_LENGTHS:
            parts.append(f'"{beginning}" *')
            continue
        words = _words(connection, beginning)
        if not words:
            return None
        if len(words) <= _WORDS_MAX:
            quoted = " OR ".join(f'"{word}"' for word in words)
            parts.append(f"({quoted})")
        else:
            indexed = max(length for length in _INDEXED_LENGTHS if length < len(beginning))
            parts.append(f'"{beginning[:indexed]}" *')
            is_exact = False
    return _Query(" AND ".join(parts), is_exact)


def _words(connection: apsw.Connection, beginning: str) -> list[str]:
    """Return the words of the index with this beginning, at most one more than _WORDS_MAX."""
    words: list[str] = []
    first, end = beginning, beginning + _LAST_CHARACTER
    while len(words) <= _WORDS_MAX:
        word = connection.execute(_NEXT_WORD, (first, end)).get
        if word is None:
            break
        words.append(word)
        first = word + _FIRST_CHARACTER
    return words


def _examined(connection: apsw.Connection, query: _Query, listing: Listing) -> Iterator[_Part]:
    """Yield the plants of a listing among the next EXAMINED_MAX that a query finds."""
    words = () if query.is_exact else listing.words or ()
    at_once = min(listing.limit + 1, PART_PLANTS_MAX) if query.is_exact else PART_PLANTS_MAX
    bindings = {"match": query.match, "tag": listing.tag, "limit": at_once}
    for _ in range(0, EXAMINED_MAX, at_once):
        bindings["after"] = _after(listing)
        [(text, examined, last)] = connection.execute(examine_query(listing), bindings)
        plants = plants_from_json(text)
        if words:
            plants = [plant for plant in plants if has_words(plant.name, words)]
        yield _Part(plants, len(text), last if examined == at_once else None)
        if examined < at_once:
            return
        listing = listing._replace(after=last)


def examine_query(listing: Listing) -> str:
    """Return the SQL for the next plants that a query of FTS5 finds.

    Its row has those of them that have the tag, how many it found, and the last id of these.
    """
    order, last = ("DESC", "min") if listing.is_descending else ("ASC", "max")
    return f"""
SELECT CAST({ARRAY} FILTER (WHERE is_wanted) AS BLOB), count(*), {last}(id) FROM (
    SELECT id, name, tag, {_IS_WANTED} FROM (
        SELECT rowid AS id FROM plant_words
        WHERE plant_words MATCH :match AND rowid {_comparison(listing)} :after
        ORDER BY rowid {order} LIMIT :limit
    ) LEFT JOIN plants USING (id)
)
"""
