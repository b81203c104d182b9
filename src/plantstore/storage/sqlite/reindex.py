"""Compares the index of words and the number of plants with the plants, and repairs both.

FTS5 lists the plants of each word, but not the words of a plant. So the whole index is read in one
snapshot, and SQLite sorts its entries by plant, in a temporary file if they are many.

Each plant with a difference gets all its entries again, in a transaction with others: first those
are removed that the snapshot shows, then those of its name and tag are added. A plant that has
changed since the snapshot is left to the next round. Searches find the other plants all the time.

An index that FTS5 cannot read or search is emptied first, and searches then miss plants until all
have their entries again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

import apsw
import msgspec

from plantstore.errors import BatchRefusedError
from plantstore.storage.sqlite.pages import MAKE_VOCABULARY, from_json, tag_word
from plantstore.storage.sqlite.word_index import (
    BEGINNINGS,
    PLANTS_MAX,
    Entry,
    count_plants,
    document,
    is_found,
    texts_of,
    write,
)
from plantstore.store import Repairs
from plantstore.words import words_of

# The words of each plant in the index, by plant.
_MAKE_INDEXED: Final = """
CREATE TEMP TABLE indexed (id INTEGER PRIMARY KEY, words TEXT);
INSERT INTO indexed SELECT doc, json_group_array(term) FROM temp.vocabulary GROUP BY doc
"""
# All plants, in order of id, and then the entries of plants that are not stored.
_COMPARED: Final = f"""
SELECT CAST(json_array(id, {BEGINNINGS}, json(words)) AS BLOB)
FROM plants FULL JOIN temp.indexed USING (id)
"""
_EMPTY: Final = "INSERT INTO plant_words (plant_words) VALUES ('delete-all')"

# The number of rows in `totals` must be 1, but another program may have changed it.
_MISSING: Final = """
SELECT (SELECT count(*) FROM plants) - coalesce(sum(plants), 0), count(*) FROM totals
"""

_Opened: TypeAlias = Callable[[], AbstractContextManager[apsw.Connection]]


class Compared(NamedTuple):
    """The beginnings of a plant's name and tag, None if it is not stored; and its indexed words."""

    id: int
    name: str | None
    tag: str | None
    indexed: set[str] | None

    @property
    def differs(self) -> bool:
        """Whether the index has other words than the name and tag."""
        words = set() if self.name is None else set(words_of(self.name))
        if self.tag is not None:
            words.add(tag_word(self.tag))
        return words != (self.indexed or set())


_DECODER: Final = msgspec.json.Decoder(Compared)


class BrokenIndexError(Exception):
    """FTS5 cannot find what the index has."""


def compare(connection: apsw.Connection) -> Iterator[list[Compared]]:
    """Yield all plants and all entries of the index, PLANTS_MAX at a time.

    Raises:
        BrokenIndexError: a search does not find a plant by a word that the index has. One plant of
            each list is searched.

    """
    connection.execute(MAKE_VOCABULARY)
    connection.execute(_MAKE_INDEXED)
    rows = (from_json(_DECODER, text) for (text,) in connection.execute(_COMPARED))
    while plants := list(islice(rows, PLANTS_MAX)):
        for plant in plants:
            if plant.name is not None and not plant.differs:
                if not is_found(connection, plant.id, plant.name, plant.tag):
                    raise BrokenIndexError
                break
        yield plants


def repair(snapshot: _Opened, writing: _Opened, progress: Callable[[int, int], None]) -> Repairs:
    """Compare everything once, and repair the differences.

    Args:
        snapshot: opens a connection that reads one snapshot.
        writing: opens a transaction that writes.
        progress: is called with the number of plants compared, and the number of all plants.

    """
    missing = _repair_total(snapshot, writing)
    try:
        plants = _repair_words(snapshot, writing, progress)
    except (BrokenIndexError, BatchRefusedError, apsw.CorruptError) as error:
        # If the file itself is damaged, the index is not the only part.
        result = getattr(error, "extendedresult", apsw.SQLITE_CORRUPT_VTAB)
        if result != apsw.SQLITE_CORRUPT_VTAB:
            raise
        with writing() as connection:
            connection.execute(_EMPTY)
        plants = _repair_words(snapshot, writing, progress)
    return Repairs(plants, missing)


def _repair_words(snapshot: _Opened, writing: _Opened, progress: Callable[[int, int], None]) -> int:
    found = done = 0
    with snapshot() as connection:
        total = count_plants(connection)
        for plants in compare(connection):
            wrong = [plant for plant in plants if plant.differs]
            if wrong:
                with writing() as other:
                    _repair_plants(other, wrong)
            found += len(wrong)
            done += sum(plant.name is not None for plant in plants)
            progress(done, max(total, done))
    return found


def _repair_plants(connection: apsw.Connection, plants: Sequence[Compared]) -> None:
    texts = texts_of(connection, [plant.id for plant in plants])
    entries: list[Entry] = []
    for plant in plants:
        text = texts.get(plant.id)
        if (text or (None, None)) == (plant.name, plant.tag):
            entries.append(("delete", plant.id, " ".join(plant.indexed or ())))
            entries.append((None, plant.id, "" if text is None else document(*text)))
    write(connection, entries)


def _repair_total(snapshot: _Opened, writing: _Opened) -> int:
    """Correct the recorded number of plants by its error in a snapshot; return the error."""
    with snapshot() as connection:
        [(missing, rows)] = connection.execute(_MISSING)
    if missing or rows != 1:
        with writing() as connection:
            total = connection.execute("SELECT coalesce(sum(plants), 0) FROM totals").get
            connection.execute("DELETE FROM totals")
            connection.execute("INSERT INTO totals VALUES (?)", (total + missing,))
    return int(missing)
