"""Histories of the first start of a store, on a new file and on a file of an older version."""

import contextlib
import random
from pathlib import Path

import apsw

from plantstore.plants import NewPlant
from plantstore.storage.migrate import migrations
from plantstore.storage.sqlite.file import APPLICATION_ID
from plantstore.storage.sqlite.store import SQLiteStore
from support.crash_states import steps_to
from support.disk import Disk
from support.ledger import Content, Ledger, live


def created(path: Path) -> tuple[Disk, Ledger]:
    """Create a store, and make a few changes; return its disk and its ledger."""
    with Disk(path, 1) as disk:
        ledger = Ledger(disk)
        live(ledger, disk, random.Random(22), 6)
    return disk, ledger


def migrated(path: Path, journal_mode: str) -> tuple[Disk, Ledger, int]:
    """Migrate a store of the first version.

    Returns:
        Its disk, its ledger, and the number of steps before the migration.

    """
    plants = {id_: NewPlant(id_, f"Rosa × {id_}", "t" if id_ % 3 else None) for id_ in range(300)}
    first, *_ = migrations("sqlite")
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute(first)
        rows = [(plant.id, plant.name, plant.tag) for plant in plants.values()]
        connection.executemany("INSERT INTO plants VALUES (?, ?, ?)", rows)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", 1)
        connection.pragma("journal_mode", journal_mode)
    history = steps_to({"": path.read_bytes()})
    with Disk(path, 1, history) as disk:
        ledger = Ledger(disk, [Content(plants, {})])
        SQLiteStore(str(path)).close()
    return disk, ledger, len(history)
