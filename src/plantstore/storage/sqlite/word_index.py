"""The index of the words of all names, and of all tags: the FTS5 table `plant_words`.

A tag is one word (`tag_word`), which no name has. FTS5 splits a text into words at each ASCII
character that is neither a letter nor a digit, and ignores the case of ASCII letters. It treats all
other characters as parts of words. So `plantstore.words.fold` makes a text that FTS5 splits into
the words of a name. Of a long name, the words are indexed with spaces between them.

The table holds no texts (https://sqlite.org/fts5.html#contentless_tables). To remove a plant, FTS5
must be given the words that were indexed, so they are found again in the old name and tag.

FTS5 collects entries in memory, and writes them to the file when the transaction ends. It does
so earlier if an id is smaller than the one before. So entries are passed in order of id.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import apsw
import msgspec

from plantstore.decision import DIFFERENT, Difference
from plantstore.errors import BatchRefusedError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.pages import WITH_IDS, from_json, tag_word, to_json
from plantstore.words import SEARCHED_CHARACTERS_MAX, WORD_CHARACTERS_MAX, fold, words_of

# Number of plants whose texts are read or indexed in one statement. It limits the memory for
# long names and tags.
PLANTS_MAX: Final = 1_000

# The first value is 'delete' to remove an entry, and NULL to add one.
_INDEX: Final = """
INSERT INTO plant_words (plant_words, rowid, words)
SELECT value->>0, value->>1, value->>2 FROM jsonb_each(?)
"""
# Each transaction adds a segment, and searches read all segments. FTS5 also merges by itself, but
# 64 pages at once: one commit in 64 would take some milliseconds longer.
_MERGED_PAGES: Final = 16
MERGE: Final = f"INSERT INTO plant_words (plant_words, rank) SELECT 'merge', {_MERGED_PAGES}"
BEGINNINGS: Final = (
    f"substr(name, 1, {SEARCHED_CHARACTERS_MAX}), substr(tag, 1, {SEARCHED_CHARACTERS_MAX})"
)
_TEXTS: Final = f"CAST(json_group_array(json_array(id, {BEGINNINGS})) AS BLOB)"
_TEXTS_FROM: Final = f"""
SELECT {_TEXTS} FROM (SELECT id, name, tag FROM plants WHERE id >= ? ORDER BY id LIMIT ?)
"""

_FIND: Final = "SELECT rowid FROM plant_words WHERE plant_words MATCH ? AND rowid = ?"

_DECODER: Final = msgspec.json.Decoder(list[tuple[int, str, str | None]])


def index_words(
    connection: apsw.Connection, difference: Difference, stored: Mapping[int, NewPlant]
) -> None:
    """Update the index for a batch, before its plants are written.

    Args:
        connection: in the transaction of the batch.
        difference: what the batch changes.
        stored: the plants before the batch, or DIFFERENT in the place of those that were not read.

    """
    new, changed, gone, _ = difference
    if not changed and not gone:  # the most frequent batch
        write(connection, [(None, plant.id, document(plant.name, plant.tag)) for plant in new])
        return
    documents = {plant.id: document(plant.name, plant.tag) for plant in new + changed}
    replaced = {plant.id for plant in changed} | set(gone)
    ids = sorted(documents.keys() | replaced)
    for part in (ids[start : start + PLANTS_MAX] for start in range(0, len(ids), PLANTS_MAX)):
        old = _stored_documents(connection, {id_: stored[id_] for id_ in part if id_ in replaced})
        entries: list[Entry] = []
        for id_ in part:
            before = old.get(id_, "")
            after = documents.get(id_, "")
            if before != after:
                entries += ("delete", id_, before), (None, id_, after)
        write(connection, entries)


def is_complete(connection: apsw.Connection) -> bool:
    """Return whether the index has all plants."""
    return connection.execute("SELECT first FROM plants_to_index").get is None


def count_plants(connection: apsw.Connection) -> int:
    """Return the recorded number of plants."""
    plants: int = connection.execute("SELECT plants FROM totals").get
    return plants


def index_next(connection: apsw.Connection) -> int:
    """Index more of the plants that were stored before there was an index.

    Returns:
        The number of plants indexed; 0 if the index is complete.

    """
    first = connection.execute("SELECT first FROM plants_to_index").get
    if first is None:
        return 0
    rows = from_json(_DECODER, connection.execute(_TEXTS_FROM, (first, PLANTS_MAX + 1)).get)
    write(connection, [(None, id_, document(name, tag)) for id_, name, tag in rows[:PLANTS_MAX]])
    if len(rows) > PLANTS_MAX:
        connection.execute("UPDATE plants_to_index SET first = ?", (rows[PLANTS_MAX][0],))
    else:
        connection.execute("DELETE FROM plants_to_index")
    return len(rows[:PLANTS_MAX])


def is_found(connection: apsw.Connection, id_: int, name: str, tag: str | None) -> bool:
    """Return whether a search finds a plant by the last of its words in the alphabet.

    A plant without words counts as found.
    """
    words = words_of(name) if tag is None else [*words_of(name), tag_word(tag)]
    return not words or connection.execute(_FIND, (f'"{max(words)}"', id_)).get is not None


# A command ('delete' or None), an id, and its words.
Entry: TypeAlias = tuple[str | None, int, str]

# The beginnings of a name and of a tag.
Text: TypeAlias = tuple[str, str | None]


def write(connection: apsw.Connection, entries: Iterable[Entry]) -> None:
    """Remove and add entries of the index, and merge a few pages of it.

    Raises:
        BatchRefusedError: FTS5 refuses to remove entries.

    """
    # FTS5 counts the texts that it gets, also those without words, and refuses to remove more. So a
    # text without words is not removed: nothing may have added it.
    in_order = sorted((entry for entry in entries if _has_effect(*entry)), key=_by_id)
    if not in_order:
        return
    try:
        connection.execute(_INDEX, (to_json(in_order),))
        connection.execute(MERGE)
    except apsw.CorruptError as error:
        # FTS5 may refuse to remove words that it never got, because another program stored the
        # plant. The other changes of the batch must not fail.
        raise BatchRefusedError("The index of words cannot be changed", str(error)) from error


def _has_effect(command: str | None, _id: int, words: str) -> bool:
    return bool(words) and (command is None or any(map(str.isalnum, words)))


def _by_id(entry: Entry) -> int:
    return entry[1]


def document(name: str, tag: str | None) -> str:
    """Return a text that FTS5 splits into the words of a name, and the word of a tag."""
    words = fold(name[:SEARCHED_CHARACTERS_MAX])
    if len(words) > WORD_CHARACTERS_MAX:  # one of them may be too long
        words = " ".join(words_of(name))
    return words if tag is None else f"{words} {tag_word(tag)}"


def _stored_documents(
    connection: apsw.Connection, stored: Mapping[int, NewPlant]
) -> dict[int, str]:
    """Return what is indexed of these plants, by id. Those that are DIFFERENT are read."""
    texts = {
        id_: (plant.name, plant.tag) for id_, plant in stored.items() if plant is not DIFFERENT
    }
    if len(texts) < len(stored):
        texts |= texts_of(connection, [id_ for id_ in stored if id_ not in texts])
    return {id_: document(*text) for id_, text in texts.items()}


def texts_of(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, Text]:
    """Return the beginnings of the names and tags of the stored plants among these ids."""
    rows = from_json(
        _DECODER, connection.execute(f"SELECT {_TEXTS} {WITH_IDS}", (to_json(ids),)).get
    )
    return {id_: (name, tag) for id_, name, tag in rows}
