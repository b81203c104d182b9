"""The changes of plants, and their outcomes."""

from enum import Enum
from typing import Final, TypeAlias

import msgspec

from plantstore.plants import NewPlant, Plant

# Maximum number of characters of names and tags in one transaction, unless a single plant has
# more. It limits how long other changes wait for the transaction. It also limits memory: a batch
# goes to the store as a text in which a character may take six bytes.
BATCH_CHARACTERS_MAX: Final = 4 * 1024 * 1024


class Replacement(msgspec.Struct, frozen=True, gc=False):
    """Replace the plant that has this id."""

    id: int
    plant: Plant


class Upsert(msgspec.Struct, frozen=True, gc=False):
    """Store a plant, and replace the one that has its id, if any."""

    plant: NewPlant

    @property
    def id(self) -> int:
        """The id of the plant."""
        return self.plant.id


class Deletion(msgspec.Struct, frozen=True, gc=False):
    """Delete the plant that has this id."""

    id: int


# To create a plant, create or replace one, replace one, or delete one.
Change: TypeAlias = NewPlant | Upsert | Replacement | Deletion


class Outcome(Enum):
    """The result of one change of a batch."""

    STORED = "stored"
    """The id was free. The plant is now stored."""

    ALREADY_STORED = "already_stored"
    """The same plant was stored before. Nothing changed."""

    ID_TAKEN = "id_taken"
    """A different plant has the id. It is unchanged, and the new plant is not stored."""

    REPLACED = "replaced"
    """The new values are stored."""

    DELETED = "deleted"
    """The plant is deleted, and its id is free."""

    NO_SUCH_PLANT = "no_such_plant"
    """No plant has the id. Nothing changed."""


def characters_in(change: Change) -> int:
    """Return the number of characters of name and tag in a change."""
    if isinstance(change, Deletion):
        return 0
    plant = change if isinstance(change, NewPlant) else change.plant
    return len(plant.name) + len(plant.tag or "")
