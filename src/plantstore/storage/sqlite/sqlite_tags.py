"""Counts the plants of each tag: by the words of tags, which the index has in order.

FTS5 has to read the whole entry of a word to count its plants.
"""

from collections.abc import Iterator
from typing import Any, Final

import apsw

from plantstore.integers import INT64_MAX
from plantstore.listings import TagCount, TagListing, TagsPage, page_of_tags
from plantstore.storage.sqlite.sqlite_pages import snapshot
from plantstore.storage.sqlite.sqlite_searches import LAST_CHARACTER
from plantstore.storage.sqlite.word_index import TAG_MARK, UNTAGGED, require_complete

_UNTAGGED: Final = f"SELECT doc FROM temp.counts WHERE term = '{UNTAGGED}'"


def select_tags(connection: apsw.Connection, listing: TagListing) -> TagsPage:
    """Return the next tags, as `PlantStore.list_tags` does, on a prepared connection."""
    with snapshot(connection):
        require_complete(connection)
        untagged = connection.execute(_UNTAGGED).get or 0
        return page_of_tags(listing, _following(connection, listing), untagged)


def _following(connection: apsw.Connection, listing: TagListing) -> Iterator[TagCount]:
    """Yield the next tags. The text of a tag is that of one plant."""
    plants, after = listing.after or (INT64_MAX, "")
    pattern = TAG_MARK + listing.beginning
    beginning, _, _ = pattern.partition("[")
    bindings: dict[str, Any] = {
        "first": beginning,
        "end": beginning + LAST_CHARACTER,
        "pattern": f"{pattern}*",
        "plants": plants,
        "after": max(beginning, TAG_MARK + after),
        "limit": listing.limit + 1,
    }
    rows: list[tuple[Any, ...]]
    while rows := connection.execute(tags_query(listing), bindings).fetchall():
        for word, number, tag in rows:
            if tag is not None:  # else another program has deleted the plant
                yield TagCount(word[len(TAG_MARK) :], tag.decode(errors="replace"), number)
        bindings["after"], bindings["plants"], _ = rows[-1]


def tags_query(listing: TagListing) -> str:
    """Return the SQL for the next tags: their words, the numbers of plants, and the tags."""
    order, follows = "term", "term > :after"
    if listing.is_by_plants:
        order = "doc DESC, term"
        follows = f"term > :first AND (doc < :plants OR doc = :plants AND {follows})"
    return f"""
WITH page AS MATERIALIZED (
    SELECT term, doc FROM temp.counts
    WHERE {follows} AND term < :end AND term GLOB :pattern
    ORDER BY {order} LIMIT :limit
)
SELECT term, doc, (
    SELECT CAST(tag AS BLOB) FROM plants
    WHERE id = (SELECT doc FROM temp.vocabulary WHERE term = page.term LIMIT 1)
) FROM page
"""
