"""A file of SQLite that is taken away from the store that has it open."""

import contextlib
import random
from pathlib import Path

import pytest

from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite import SQLiteStore
from plantstore.store import Outcome

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("fate", ["deleted", "moved", "replaced"])
def test_what_goes_to_a_file_that_nobody_finds_any_more_is_not_acknowledged(
    path: Path, tmp_path: Path, suffix: str, fate: str
) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])
    file = Path(f"{path}{suffix}")
    kept = tmp_path / "kept"
    if fate == "deleted":
        file.unlink()
    else:
        file.rename(kept)
    if fate == "replaced":
        file.write_bytes(kept.read_bytes())

    for act in (store.probe, lambda: store.apply_changes([NewPlant(2, "b")])):
        with pytest.raises(StoreUnavailableError, match="moved, replaced or deleted"):
            act()
    assert store.find_plants([PLANT.id]) == {PLANT.id: PLANT}
    if fate != "deleted":
        kept.rename(file)
        store.probe()
        assert store.apply_changes([NewPlant(3, "c")]) == [Outcome.STORED]
    store.close()


def test_a_file_whose_content_is_replaced_is_unavailable_and_no_bug(path: Path) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([NewPlant(id_, "x" * 1000) for id_ in range(2000)])
    chance = random.Random(0)

    for _ in range(20):
        size = path.stat().st_size
        path.write_bytes(chance.randbytes(size))
        with contextlib.suppress(StoreUnavailableError):
            store.apply_changes([NewPlant(chance.randrange(3000), "y")])
        with contextlib.suppress(StoreUnavailableError):
            store.list_plants(after=chance.randrange(2000), limit=100, tag=None)
        with contextlib.suppress(StoreUnavailableError):
            store.find_plants([chance.randrange(2000)])
    store.close()
