"""Histories of the first start of a store, on a new file and on a file of an older version."""

import random
from pathlib import Path

from plantstore.storage.sqlite.store import SQLiteStore
from support.crash_states import steps_to
from support.disk import Disk
from support.ledger import Content, Ledger, live
from support.other_programs import change, make_older


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
    url = f"sqlite:///{path}"
    plants = {plant.id: plant for plant in make_older(url, 1, 300)}
    change(url, f"PRAGMA journal_mode = {journal_mode}")
    history = steps_to({"": path.read_bytes()})
    with Disk(path, 1, history) as disk:
        ledger = Ledger(disk, [Content(plants, {})])
        SQLiteStore(str(path)).close()
    return disk, ledger, len(history)
