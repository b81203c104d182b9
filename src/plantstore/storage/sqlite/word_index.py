"""The index of the words of all names: the FTS5 table `plant_words`.

FTS5 splits a text into words at each ASCII character that is neither a letter nor a digit, and
ignores the case of ASCII letters. It treats all other characters as parts of words. So a short
ASCII text is indexed as it is. The words of other texts are found by `plantstore.words`, and are
indexed with spaces between them.

The table holds no texts (https://sqlite.org/fts5.html#contentless_tables). To remove a plant, FTS5
must be given the words that were indexed, so they are found again in the old name.

FTS5 collects entries in memory, and writes them to the file when the transaction ends. It does
so earlier if an id is smaller than the one before. So entries are passed in order of id.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import apsw
import msgspec

from plantstore.decision import Difference
from plantstore.errors import BatchRefusedError
from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.sqlite.rows import WITH_IDS, to_json
from plantstore.storage.sqlite.search import MAKE_VOCABULARY
from plantstore.words import SEARCHED_CHARACTERS_MAX, WORD_CHARACTERS_MAX, words_of

# Number of plants whose names are read or indexed in one statement. It limits the memory for
# long names.
PLANTS_MAX: Final = 1_000

# Number of pages of the index that one merge writes. It takes some milliseconds.
_MERGED_PAGES: Final = 64

# The first value is 'delete' to remove an entry, and NULL to add one.
_INDEX: Final = """
INSERT INTO plant_words (plant_words, rowid, words)
SELECT value->>0, value->>1, value->>2 FROM jsonb_each(?)
"""
_INDEX_PLANTS: Final = """
INSERT INTO plant_words (rowid, words)
SELECT value->>'id', value->>'name' FROM jsonb_each(?) ORDER BY value->>'id'
"""
_MERGE: Final = "INSERT INTO plant_words (plant_words, rank) VALUES ('merge', ?)"
_NAMES: Final = (
    f"CAST(json_group_array(json_array(id, substr(name, 1, {SEARCHED_CHARACTERS_MAX}))) AS BLOB)"
)
_NAMES_FROM: Final = f"""
SELECT {_NAMES} FROM (SELECT id, name FROM plants WHERE id >= ? ORDER BY id LIMIT ?)
"""

_decode_names = msgspec.json.Decoder(list[tuple[int, str]]).decode


def index_new_plants(connection: apsw.Connection, plants: Sequence[NewPlant], as_json: str) -> None:
    """Add plants to the index. `as_json` is what `to_json` returns for them."""
    if all(len(plant.name) <= WORD_CHARACTERS_MAX for plant in plants) and as_json.isascii():
        connection.execute(_INDEX_PLANTS, (as_json,))
    else:
        _write(connection, [(None, plant.id, _document(plant.name)) for plant in plants])


def index_words(connection: apsw.Connection, difference: Difference) -> None:
    """Update the index for a batch. The plants must not have been written yet."""
    new, changed, gone = difference
    names = {plant.id: plant.name for plant in new + changed}
    stored = {plant.id for plant in changed} | set(gone)
    ids = sorted(names.keys() | stored)
    for part in (ids[start : start + PLANTS_MAX] for start in range(0, len(ids), PLANTS_MAX)):
        old = _stored_names(connection, [id_ for id_ in part if id_ in stored])
        entries: list[_Entry] = []
        for id_ in part:
            before = _document(old.get(id_, ""))
            after = _document(names.get(id_, ""))
            if before != after:
                entries += ("delete", id_, before), (None, id_, after)
        _write(connection, entries)


def merge_words(connection: apsw.Connection) -> bool:
    """Merge a few pages of the index's segments, in a transaction that the caller has begun.

    Each transaction adds a segment. Searches read all segments. FTS5 merges some of them while
    plants are stored, and this function merges the others.

    Returns:
        Whether something was merged, and so there may be more.

    """
    before = connection.total_changes()
    connection.execute(_MERGE, (_MERGED_PAGES,))
    return connection.total_changes() - before > 1  # 1 is the statement itself


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
    rows = _from_json(connection.execute(_NAMES_FROM, (first, PLANTS_MAX + 1)).get)
    _write(connection, [(None, id_, _document(name)) for id_, name in rows[:PLANTS_MAX]])
    if len(rows) > PLANTS_MAX:
        connection.execute("UPDATE plants_to_index SET first = ?", (rows[PLANTS_MAX][0],))
    else:
        connection.execute("DELETE FROM plants_to_index")
    return len(rows[:PLANTS_MAX])


def differs(connection: apsw.Connection) -> bool:
    """Return whether the index has other words than the names. It reads all of both.

    The entries are compared by a sum of their hashes, which needs no memory for them.
    """
    connection.execute(MAKE_VOCABULARY)
    indexed = sum(map(hash, connection.execute("SELECT doc, term FROM temp.vocabulary")))
    named = 0
    first: int | None = ID_MIN
    while first is not None:
        rows = _from_json(connection.execute(_NAMES_FROM, (first, PLANTS_MAX + 1)).get)
        named += sum(
            hash((id_, word)) for id_, name in rows[:PLANTS_MAX] for word in words_of(name)
        )
        first = rows[PLANTS_MAX][0] if len(rows) > PLANTS_MAX else None
    return indexed != named


# A command ('delete' or None), an id, and its words.
_Entry = tuple[str | None, int, str]


def _write(connection: apsw.Connection, entries: Iterable[_Entry]) -> None:
    in_order = sorted((entry for entry in entries if entry[2]), key=_by_id)
    if not in_order:
        return
    try:
        connection.execute(_INDEX, (to_json(in_order),))
    except apsw.CorruptError as error:
        # FTS5 may refuse to remove words that it never got, because another program stored the
        # plant. The other changes of the batch must not fail.
        raise BatchRefusedError("The index of words cannot be changed", str(error)) from error


def _by_id(entry: _Entry) -> int:
    return entry[1]


def _document(name: str) -> str:
    """Return a text that FTS5 splits into the words of a name."""
    if len(name) <= WORD_CHARACTERS_MAX and name.isascii():
        return name
    return " ".join(words_of(name))


def _stored_names(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, str]:
    if not ids:
        return {}
    return dict(_from_json(connection.execute(f"SELECT {_NAMES} {WITH_IDS}", (to_json(ids),)).get))


def _from_json(text: bytes) -> list[tuple[int, str]]:
    try:
        return _decode_names(text)
    except UnicodeDecodeError:  # stored by another program
        return _decode_names(text.decode(errors="replace"))
