"""The feed: the changes that were made, in order, for programs that keep a copy of the catalogue.

Theory of operation
-------------------
Each change that is made gets a number in its own transaction, and numbers become visible in their
order. So a follower that has all changes up to a number asks for those after it, and misses none.

The changes of a transaction get consecutive numbers. They begin with the time in microseconds since
1970. If the clock is not ahead of the last number, they begin a random distance after this number:
up to 2^20 for each change of the transaction. So a number that a restore or a failover lost is
hardly ever given to another change. A follower may therefore ask for the changes after a number
only if the feed has this number. Otherwise it has followed another history, or has missed changes,
and must begin with an export again.

The store itself records whether the feed is on, so that all processes that write agree. While it is
off, no change gets a number. When it is switched on again, it begins after a new number, and no
follower from before can continue.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum
from functools import lru_cache, partial
from typing import Final, NamedTuple, TypeAlias

import msgspec

from plantstore.listings import Page
from plantstore.plants import NewPlant

# Maximum number of changes that are kept. They take about a gigabyte if the plants are usual ones.
CHANGES_MAX: Final = 10_000_000


class Kind(IntEnum):
    """What a change did to the plant. The stores keep the number, and clients get the word."""

    CREATED = 1
    REPLACED = 2
    DELETED = 3


class Made(NamedTuple):
    """A change that a batch makes.

    Attributes:
        kind: what it did.
        id: of the plant.
        name: of the plant afterwards; None if it is deleted.
        tag: of the plant afterwards.
        set: the name of the set of the change; None if it is in none.
        name_before: of the plant before; None if there was none, or the change is in no set.
        tag_before: of the plant before.

    """

    kind: int
    id: int
    name: str | None
    tag: str | None
    set: str | None = None
    name_before: str | None = None
    tag_before: str | None = None


class Recorded(NamedTuple):
    """A change of the feed. `at` is in seconds since 1970, UTC."""

    number: int
    kind: int
    at: int
    id: int
    name: str | None
    tag: str | None


# It ends with a number, also if it is the last page.
ChangesPage: TypeAlias = Page[Recorded, int]

_WORDS: Final = {kind.value: kind.name.lower() for kind in Kind}
_encode = msgspec.json.Encoder().encode


def render_changes(changes: Sequence[Recorded]) -> bytes:
    """Render changes as a JSON array in UTF-8."""
    return _encode([_described(change) for change in changes])


def render_event(change: Recorded) -> bytes:
    """Render a change as an event of a stream (WHATWG HTML §9.2.5). JSON has no line ends."""
    head = f"id: {change.number}\nevent: {_WORDS[change.kind]}\ndata: ".encode()
    return b"%b%b\n\n" % (head, _encode(_described(change)))


class _FeedChange(msgspec.Struct, gc=False):
    """The FeedChange record of the interface."""

    number: int
    change: str
    at: datetime
    plant: NewPlant | dict[str, int]


# Many changes of a page have the same time.
_time_of = lru_cache(partial(datetime.fromtimestamp, tz=UTC))


def _described(change: Recorded) -> _FeedChange:
    number, kind, at, id_, name, tag = change
    plant = {"id": id_} if name is None else NewPlant(id_, name, tag)
    return _FeedChange(number, _WORDS[kind], _time_of(at), plant)
