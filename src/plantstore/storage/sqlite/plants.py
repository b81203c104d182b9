"""Applies changes of plants: to them, to the index of their words, to their number, to the feed."""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from plantstore.changes import Change, Result
from plantstore.decision import decide, load_stored
from plantstore.storage.sqlite.feed import record
from plantstore.storage.sqlite.pages import WITH_IDS, select_by_id, to_json
from plantstore.storage.sqlite.word_index import index_words

_SIZES: Final = "json_group_array(json_array(id, octet_length(name), octet_length(tag)))"
_UPSERT: Final = """
INSERT INTO plants (id, name, tag)
SELECT value->>'id', value->>'name', value->>'tag' FROM jsonb_each(?) WHERE true
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tag = excluded.tag
"""
_DELETE: Final = "DELETE FROM plants WHERE id IN (SELECT value FROM json_each(?))"
_COUNT: Final = "UPDATE totals SET plants = plants + ?"

_decode_sizes = msgspec.json.Decoder(list[tuple[int, int, int | None]]).decode


def apply_changes(connection: apsw.Connection, changes: Sequence[Change]) -> list[Result]:
    """Apply a batch of changes, in a transaction that the caller has begun."""
    ids = to_json([change.id for change in changes])
    sizes = _decode_sizes(connection.execute(f"SELECT {_SIZES} {WITH_IDS}", (ids,)).get)
    stored = load_stored(
        changes,
        {id_: (name, tag) for id_, name, tag in sizes},
        lambda ids: select_by_id(connection, ids),
    )
    outcomes, difference = decide(changes, dict(stored))
    index_words(connection, difference, stored)
    if difference.new or difference.changed:
        connection.execute(_UPSERT, (to_json(difference.new + difference.changed),))
    if difference.gone:
        connection.execute(_DELETE, (to_json(difference.gone),))
    if growth := len(difference.new) - len(difference.gone):
        connection.execute(_COUNT, (growth,))
    record(connection, difference.made)
    return outcomes
