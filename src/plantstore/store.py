"""What the service asks of a place that keeps plants and tokens.

The promises stand in the docstrings here; tests/contract holds every store to them.
"""

from collections.abc import Callable, Generator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from plantstore.plants import NewPlant, Plant
from plantstore.tokens import TokenRecord

# What the names and tags of a page of several plants hold at most, in bytes of UTF-8. It bounds
# what a page costs, and so how long others wait for it. A thousand plants of usual size fit.
PAGE_BYTES_MAX: Final = 128 * 1024

# Plants in a piece of a scan: enough that the engine does the most of it, few enough to hold.
SCAN_PLANTS_MAX: Final = 1000


class Replacement(msgspec.Struct, frozen=True, gc=False):
    """The plant with this id is to become this one."""

    id: int
    plant: Plant


class Deletion(msgspec.Struct, frozen=True, gc=False):
    """The plant with this id is to go."""

    id: int


Change: TypeAlias = NewPlant | Replacement | Deletion


class Outcome(Enum):
    """What became of one change of a batch."""

    STORED = "stored"
    """The id was free; the plant is now there."""

    ALREADY_STORED = "already_stored"
    """The same record was there already; nothing changed."""

    ID_TAKEN = "id_taken"
    """Another record was there already; it is untouched, and this one is not stored."""

    REPLACED = "replaced"
    """The plant is now as the replacement has it."""

    DELETED = "deleted"
    """The plant is gone, and its id is free."""

    NO_SUCH_PLANT = "no_such_plant"
    """There was none to replace or delete; nothing changed."""


class Page(NamedTuple):
    """Some plants in order of id; `is_last` tells that no more come after them."""

    plants: list[NewPlant]
    is_last: bool


class Condition(NamedTuple):
    """What a check of a store found: `problems` has a line for each; the store is whole if none."""

    schema: int
    plants: int
    tokens: int
    problems: list[str]


class Store(Protocol):
    """A place that keeps plants and tokens, durably.

    `apply_changes` and `trim` are called by one thread at a time, `find_plants` by
    one, and `list_plants` by one, which may all be different; the other methods may
    be called by any thread at any time.

    A read sees every change that was made, by any process, before it began.
    Reads never make a change wait.

    Every method raises StoreUnavailableError when the storage cannot be read or
    written; a later call may succeed.
    """

    def apply_changes(self, changes: Sequence[Change]) -> list[Outcome]:
        """Make a batch of changes durably, together; tell what became of each.

        When this returns, what it changed survives a crash and a power cut.
        Outcomes come in the order of the changes, as if each had been made
        alone, one after the other: a change may meet an earlier one of its own
        batch. Other processes may make theirs at the same time; some sequential
        order explains them all.

        Raises:
            StoreUnreachableError: nothing of the batch was made.
            StoreUnavailableError: each change of the batch was made whole or not
                at all, and which, nobody knows: it may come to light only when
                the storage is back.

        """
        ...

    def trim(self) -> bool:
        """Give back disk space that is no longer needed; called while no changes come.

        Returns:
            Whether it is done. If not, for want of a moment without readers, call again later.

        """
        ...

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        """Return those plants, by id, that are there."""
        ...

    def list_plants(self, *, after: int | None, limit: int, tag: str | None) -> Page:
        """Return the next plants in order of id, at what a page costs, wherever it begins.

        It may hold fewer than there are, so that plants with very long names do
        not fill the memory (PAGE_BYTES_MAX); it holds one at least, if any is left.

        Args:
            after: the id that the plants come after; from the first one if None.
            limit: plants at most; at least 1.
            tag: only plants with exactly this tag; any plants if None.

        """
        ...

    def scan_plants(self) -> Generator[list[NewPlant], None, None]:
        """Yield every plant, some at a time, in order of id, as they are at one moment.

        Close the generator if you leave it early; what it holds open may cost room on disk.
        """
        ...

    def count_plants(self) -> int:
        """Return how many plants there are."""
        ...

    def probe(self) -> None:
        """Return if plants can be read and written: write something small, and sync it."""
        ...

    def check(self) -> Condition:
        """Look whether all that is stored is whole. It takes as long as reading it all."""
        ...

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> Condition:
        """Copy the store into a file, as it is at one moment, while it is in use; check the copy.

        Args:
            path: the file, which is there, is empty, and belongs to the caller.
            progress: is told what is done, and how much it is in all.

        Returns:
            What the check of the copy found: no problems.

        Raises:
            StoreUnavailableError: the copy cannot be made, or is not whole.
            UsageError: stores of this kind are backed up by another program.

        """
        ...

    def occupies(self, path: Path) -> bool:
        """Tell whether a file is one that the store lives in, and must not be overwritten."""
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

    def forget_token(self, digest: bytes) -> None:
        """Forget the token with this SHA-256, if any: one whose secret nobody was shown."""
        ...

    def close(self) -> None:
        """Let go of files and connections. Nothing may be called afterwards."""
        ...


def page_plants_max(limit: int, tag: str | None) -> int:
    """Return how many plants a page can hold, up to a limit; each of them holds the tag."""
    if not tag:
        return limit
    return max(1, min(limit, PAGE_BYTES_MAX // len(tag.encode())))


def scan(page_after: Callable[[int | None], Page]) -> Generator[list[NewPlant], None, None]:
    """Yield the plants of one page after the other; `page_after` takes an id, None at first."""
    page = Page([], is_last=False)
    while not page.is_last:
        page = page_after(page.plants[-1].id if page.plants else None)
        yield page.plants
