"""What the service asks of a place that keeps plants and tokens.

The promises stand in the docstrings here; tests/contract holds every store to them.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from plantstore.plants import NewPlant
from plantstore.tokens import TokenRecord


class Outcome(Enum):
    """What became of one plant of a batch."""

    STORED = "stored"
    """The id was free; the plant is now there."""

    ALREADY_STORED = "already stored"
    """The same record was there already; nothing changed."""

    ID_TAKEN = "id taken"
    """Another record was there already; it is untouched, and this one is not stored."""


class Store(Protocol):
    """A place that keeps plants and tokens, durably.

    `create_plants` is called by one thread at a time; the other methods may be
    called by any thread at any time.

    Every method raises StoreUnavailableError when the storage cannot be read or
    written; a later call may succeed.
    """

    def create_plants(self, plants: Sequence[NewPlant]) -> list[Outcome]:
        """Store a batch in one durable transaction, and tell what became of each plant.

        When this returns, what it stored survives a crash and a power cut.
        Outcomes come in the order of the plants, as if each had been stored
        alone, one after the other: a plant may meet an earlier one of its own
        batch. Other processes may store at the same time; one id is taken once.

        Raises:
            StoreUnavailableError: nothing of the batch is visible; after an I/O
                error it may come to light when the store is opened again.

        """
        ...

    def add_token(self, record: TokenRecord) -> None:
        """Remember a token.

        Raises:
            UsageError: the name is taken, by a token of any state.

        """
        ...

    def find_token(self, digest: bytes) -> TokenRecord | None:
        """Return the token with this SHA-256, whatever its state, or None."""
        ...

    def list_tokens(self) -> list[TokenRecord]:
        """Return every token, oldest first, then by name."""
        ...

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        """Revoke a token, and return it as it is afterwards.

        One that was revoked before keeps the time of its first revocation.

        Raises:
            UsageError: no token has this name.

        """
        ...

    def close(self) -> None:
        """Let go of files and connections. Nothing may be called afterwards."""
        ...


def decide(
    plants: Sequence[NewPlant], stored: dict[int, NewPlant]
) -> tuple[list[Outcome], list[NewPlant]]:
    """Work out a batch, one plant after the other, against what is stored.

    Args:
        plants: the batch, in order.
        stored: every plant of the store whose id the batch names; those that
            the batch adds are put in.

    Returns:
        An outcome for each plant, and the plants that are to be stored.

    """
    outcomes, new = [], []
    for plant in plants:
        there = stored.get(plant.id)
        if there is None:
            stored[plant.id] = plant
            new.append(plant)
            outcomes.append(Outcome.STORED)
        elif there == plant:
            outcomes.append(Outcome.ALREADY_STORED)
        else:
            outcomes.append(Outcome.ID_TAKEN)
    return outcomes, new
