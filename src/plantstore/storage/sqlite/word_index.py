"""The index of the words of all names, of all tags, and of the order by name: `plant_words`.

The tag, or that there is none, is one word (`tag_word`). So is the key of the name: FTS5 can list
its words in order, from any one on. These words begin with `_`, and no word of a name has a `_`.
The key is also a column of the plant, by which SQLite sorts what a search finds.

The table is one of FTS5. FTS5 splits a text into words at each ASCII character that is no letter,
no digit and no `_`, and ignores the case of ASCII letters. It treats all other characters as parts
of words. So `plantstore.words.fold` makes a text that FTS5 splits into the words of a name. Of a
long name, the words are indexed with spaces between them.

The table holds no texts (https://sqlite.org/fts5.html#contentless_tables). To remove a plant, FTS5
must be given the words that were indexed, so they are found again in the old name and tag.

FTS5 collects entries in memory, and writes them to the file when the transaction ends. It does
so earlier if an id is smaller than the one before. So entries are passed in order of id.
"""

from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Final, TypeAlias

import apsw
import msgspec

from plantstore.errors import BatchRefusedError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.checksums import checksum_of
from plantstore.storage.sqlite.sqlite_pages import PLANTS, from_json, plants_from_json, to_json
from plantstore.words import (
    SEARCHED_CHARACTERS_MAX,
    WORD_CHARACTERS_MAX,
    fold,
    order_key,
    tag_key,
    words_of,
)

# The beginnings of the words of tags and of keys, and the word of plants without a tag. No name has
# a word with `_`. These words have the same beginnings of all indexed lengths, so a plant has only
# one entry more for each length.
TAG_MARK: Final = "____t"
KEY_MARK: Final = "____k"
UNTAGGED: Final = "____u"

# The first plant that is not in the index of words yet. None of those after it is in the index.
FIRST: Final = "SELECT first FROM plants_to_index"

# A plant, its key, its checksum, and a text that FTS5 splits into its words, which is never empty.
# It is a tuple, because a named one takes twice as long.
Row: TypeAlias = tuple[int, str, str | None, str, int, str]

# Number of plants that are indexed in one transaction.
PLANTS_MAX: Final = 1_000

# Number of plants whose words a check looks for in the index.
SAMPLE_PLANTS: Final = 1_000

# The first value is 'delete' to remove an entry, and NULL to add one.
_INDEX: Final = """
INSERT INTO plant_words (plant_words, rowid, words)
SELECT value->>0, value->>1, value->>2 FROM jsonb_each(?)
"""
# Each transaction adds a segment, and searches read all segments. FTS5 also merges by itself, but
# 64 pages at once: one commit in 64 would take some milliseconds longer.
_MERGE: Final = "INSERT INTO plant_words (plant_words, rank) SELECT 'merge', "
MERGE: Final = f"{_MERGE} 16"

# Many large transactions leave more segments than `MERGE` merges: a search may take twice as long.
_MERGE_IDLE: Final = f"{_MERGE} 64"

_NEXT: Final = f"""
SELECT {PLANTS} FROM (SELECT id, name, tag FROM plants WHERE id >= ? ORDER BY id LIMIT ?)
"""
_START_OVER: Final = """
INSERT INTO plant_words (plant_words) VALUES ('delete-all');
DELETE FROM plants_to_index;
INSERT INTO plants_to_index SELECT id FROM plants ORDER BY id LIMIT 1;
DELETE FROM totals;
INSERT INTO totals SELECT count(*) FROM plants;
"""
# A plant keeps its checksum, which may show that it is damaged.
_SET_KEYS: Final = """
UPDATE plants SET name_key = value->>3, checksum = coalesce(checksum, value->>4) FROM jsonb_each(?)
WHERE plants.id = value->>0 AND (name_key IS NOT value->>3 OR checksum IS NULL)
"""
_SAMPLE: Final = f"""
SELECT CAST(json_group_array(json_array(id, name, tag, name_key)) AS BLOB) FROM plants
WHERE id IN (SELECT id FROM plants ORDER BY random() LIMIT {SAMPLE_PLANTS})
"""
_SAMPLED: Final = msgspec.json.Decoder(list[tuple[int, str, str | None, str | None]])
_FIND: Final = "SELECT rowid FROM plant_words WHERE plant_words MATCH ? AND rowid = ?"


def tag_word(tag: str | None) -> str:
    """Return the word of the index for a tag, or for no tag."""
    if tag is not None and len(tag) > SEARCHED_CHARACTERS_MAX:
        return TAG_MARK + tag_key(tag)
    return _short_tag_word(tag)


@lru_cache(maxsize=1024)
def _short_tag_word(tag: str | None) -> str:
    return UNTAGGED if tag is None else TAG_MARK + tag_key(tag)


def is_complete(connection: apsw.Connection) -> bool:
    """Return whether the index of words has all plants."""
    return connection.execute(FIRST).get is None


def require_complete(connection: apsw.Connection) -> None:
    """Raise BatchRefusedError unless the index of words has all plants.

    Other reads of a batch may not need the index.
    """
    if not is_complete(connection):
        raise BatchRefusedError(
            "The index of words is not complete, so nothing can be searched; wait until `plantstore"
            " reindex` or `plantstore migrate` ends, or run it again"
        )


def index_words(connection: apsw.Connection, old: Iterable[NewPlant], rows: Iterable[Row]) -> None:
    """Update the index for a batch, before its plants are written.

    Args:
        connection: in the transaction of the batch.
        old: the plants that the batch changes or deletes, as they are before it.
        rows: of the plants that it creates or changes.

    """
    first = connection.execute(FIRST).get
    before = {plant.id: row_of(plant)[-1] for plant in old}
    after = {row[0]: row[-1] for row in rows}
    entries: list[Entry] = []
    for id_ in before.keys() | after.keys():
        removed, added = before.get(id_, ""), after.get(id_, "")
        if removed != added and (first is None or id_ < first):  # later ones are indexed later
            entries += ("delete", id_, removed), (None, id_, added)
    write(connection, entries)


def start_over(connection: apsw.Connection) -> None:
    """Empty the index, so that `index_next` has to index all plants again; count the plants."""
    connection.execute(_START_OVER)


def index_next(connection: apsw.Connection) -> int:
    """Index the next plants that are not in the index.

    Returns:
        The number of plants indexed; 0 if the index is complete.

    """
    first = connection.execute(FIRST).get
    if first is None:
        return 0
    plants = plants_from_json(connection.execute(_NEXT, (first, PLANTS_MAX + 1)).get)
    here = [*map(row_of, plants[:PLANTS_MAX])]
    write(connection, [(None, row[0], row[-1]) for row in here])
    connection.execute(_SET_KEYS, (to_json(here),))
    if len(plants) > PLANTS_MAX:
        connection.execute("UPDATE plants_to_index SET first = ?", (plants[PLANTS_MAX].id,))
    else:
        connection.execute("DELETE FROM plants_to_index")
    return len(here)


def merge(connection: apsw.Connection) -> bool:
    """Merge some segments of the index, for a few milliseconds; return whether more may be left.

    https://sqlite.org/fts5.html#the_merge_command
    """
    before = connection.total_changes()
    try:
        connection.execute(_MERGE_IDLE)
    except (apsw.CorruptError, apsw.SQLError):  # a check tells, and a reindex repairs it
        return False
    return connection.total_changes() - before > 1


def has_differences(connection: apsw.Connection) -> bool:
    """Return whether one of some plants, chosen at random, has another key or is not found.

    Each plant must be found by all of its words.
    """
    connection.execute(_FIND, ("a", 0)).fetchall()  # the table may be missing, and no plant there
    for id_, name, tag, key in from_json(_SAMPLED, connection.execute(_SAMPLE).get):
        words = [*words_of(name), tag_word(tag), f"{KEY_MARK}{order_key(name)}"]
        query = " AND ".join(f'"{word}"' for word in words)
        if key != order_key(name) or connection.execute(_FIND, (query, id_)).get is None:
            return True
    return False


# A command ('delete' or None), an id, and its words.
Entry: TypeAlias = tuple[str | None, int, str]


def write(connection: apsw.Connection, entries: Iterable[Entry]) -> None:
    """Remove and add entries of the index, and merge a few pages of it.

    Raises:
        BatchRefusedError: FTS5 refuses to remove entries.

    """
    in_order = sorted((entry for entry in entries if entry[2]), key=itemgetter(1))
    if not in_order:
        return
    try:
        connection.execute(_INDEX, (to_json(in_order),))
        connection.execute(MERGE)
    except apsw.CorruptError as error:
        # FTS5 may refuse to remove words that it never got, because another program stored the
        # plant. The other changes of the batch must not fail.
        raise BatchRefusedError("The index of words cannot be changed", str(error)) from error


def row_of(plant: NewPlant) -> Row:
    """Return the plant with what is stored and indexed for it."""
    id_, name, tag = plant.id, plant.name, plant.tag
    words = fold(name[:SEARCHED_CHARACTERS_MAX])
    if len(words) > WORD_CHARACTERS_MAX:  # one of them may be too long
        words = " ".join(words_of(name))
    if "_" in words:
        words = words.replace("_", " ")
    key = order_key(name)
    return (
        id_,
        name,
        tag,
        key,
        checksum_of(id_, name, tag),
        f"{words} {tag_word(tag)} {KEY_MARK}{key}",
    )
