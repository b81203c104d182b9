"""The index of the words of all names: the column `words`, with a GIN index.

PostgreSQL would find other words in a name than `plantstore.words`, depending on its settings.
So the column gets the words themselves.
"""

from collections.abc import Iterable
from typing import Final

from plantstore.plants import ID_MIN
from plantstore.storage.postgres.connection import Connection
from plantstore.words import SEARCHED_CHARACTERS_MAX, words_of

# Number of plants that are indexed in one transaction.
PLANTS_MAX: Final = 1_000

# The value of the column for an element of `documents`.
WORDS: Final = "array_to_tsvector(string_to_array(given.words, ' '))"

_NEXT: Final = """
SELECT id, left(name, %b) FROM plants
WHERE words IS NULL AND id >= %b ORDER BY id LIMIT %b FOR UPDATE
"""
_INDEX: Final = f"""
UPDATE plants SET words = {WORDS}
FROM unnest(%b::bigint[], %b::text[]) AS given (id, words) WHERE plants.id = given.id
"""

_WORDS_FROM: Final = """
SELECT id, left(name, %b), tsvector_to_array(words) FROM plants
WHERE id >= %b AND words IS NOT NULL ORDER BY id LIMIT %b
"""


def documents(names: Iterable[str]) -> list[str]:
    """Return the words of each name, with spaces between them."""
    return [" ".join(words_of(name)) for name in names]


def index_next(connection: Connection, first_id: int) -> list[int]:
    """Index more of the plants that were stored without words, from an id on.

    Returns:
        The ids of the plants, in order; empty if there are no more.

    """
    with connection.transaction():
        values = (SEARCHED_CHARACTERS_MAX, first_id, PLANTS_MAX)
        names: dict[int, str] = dict(connection.execute(_NEXT, values, binary=True).fetchall())
        connection.execute(_INDEX, (list(names), documents(names.values())))
    return list(names)


def first_with_other_words(connection: Connection) -> int | None:
    """Return the first id of a plant whose words are not those of its name. None if there is none.

    It reads all plants, in pages.
    """
    first: int | None = ID_MIN
    while first is not None:
        values = (SEARCHED_CHARACTERS_MAX, first, PLANTS_MAX + 1)
        rows = connection.execute(_WORDS_FROM, values, binary=True).fetchall()
        for id_, name, words in rows[:PLANTS_MAX]:
            if sorted(words_of(name)) != sorted(words):
                return int(id_)
        first = rows[PLANTS_MAX][0] if len(rows) > PLANTS_MAX else None
    return None
