"""What clients sent to a service in a cluster, and what the service acknowledged.

A plant has versions, in this order: one client creates it, perhaps replaces it, and perhaps
deletes it. The client sends each change until it is acknowledged. So a read must return the
version that was acknowledged before the read, or a later version that was sent.
"""

import itertools
import threading
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from plantstore.plants import NewPlant

CREATED, REPLACED, DELETED = 1, 2, 3

# The number of plants that are read: the ones that were acknowledged last.
RECENT_PLANTS = 200


class Event(NamedTuple):
    """A request: the instance that answered it, and when it began and ended."""

    instance: int
    began: float
    ended: float


def versions(id_: int) -> Sequence[int]:
    """Return the versions of a plant: most plants are only created."""
    if id_ % 8:
        return [CREATED]
    return [CREATED, REPLACED] if id_ % 16 else [CREATED, REPLACED, DELETED]


def plant(id_: int, version: int) -> NewPlant:
    return NewPlant(id_, f"Rosa × {id_}", f"version {version}" if id_ % 3 else f"{version}")


class Ledger:
    """The changes that were sent and acknowledged, and the errors that were found."""

    def __init__(self) -> None:
        self.sent: dict[int, int] = {}
        self.acknowledged: dict[int, int] = {}
        self.changes: list[Event] = []
        self.stale: list[Event] = []
        self.recent: deque[int] = deque(maxlen=RECENT_PLANTS)
        self.unexpected: Counter[str] = Counter()
        self._changed = threading.Condition()

    def acknowledge(self, event: Event, id_: int, version: int) -> None:
        with self._changed:
            self.acknowledged[id_] = version
            self.recent.append(id_)
            self.changes.append(event)
            self._changed.notify_all()

    def wait_for_each(self, instances: Sequence[int], after: float, seconds: float) -> bool:
        """Wait until each instance has acknowledged a change that began after the given time."""

        def have_changed() -> bool:
            latest = {change.instance: change.began for change in self.changes[-2_000:]}
            return all(latest.get(instance, 0) > after for instance in instances)

        with self._changed:
            return self._changed.wait_for(have_changed, timeout=seconds)

    def is_stale(self, id_: int, least: int, version: int | None) -> bool:
        """Return whether a version that was read is older than the acknowledged one.

        Args:
            id_: the plant.
            least: the version that was acknowledged before the read.
            version: the version that was found; None if no plant was found.

        """
        if version is None:
            return self.sent[id_] < DELETED
        return version < least

    def lost(self, stored: dict[int, NewPlant]) -> list[int]:
        """Return the plants whose stored version is older than the acknowledged one."""
        return [
            id_
            for id_, least in self.acknowledged.items()
            if self.is_stale(id_, least, version_of(stored.get(id_)))
        ]

    def invented(self, stored: dict[int, NewPlant]) -> list[int]:
        """Return the stored plants that no client sent in this form."""
        return [
            id_
            for id_, found in stored.items()
            if not any(
                found == plant(id_, version) for version in range(1, self.sent.get(id_, 0) + 1)
            )
        ]

    def seconds_without_change(self, instance: int, since: float, until: float) -> float:
        """Return the longest time during which an instance acknowledged no change."""
        ends = [event.ended for event in self.changes if event.instance == instance]
        before = max((end for end in ends if end <= since), default=since)
        times = [before, *sorted(end for end in ends if since < end <= until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def stale_after_move(self, moved_at: float) -> int:
        """Count the stale reads of instances whose changes already went to the new primary."""
        moved: dict[int, float] = {}
        for event in self.changes:
            if event.began > moved_at:
                moved[event.instance] = min(event.ended, moved.get(event.instance, event.ended))
        return sum(event.began > moved.get(event.instance, event.began) for event in self.stale)


def version_of(found: NewPlant | None) -> int | None:
    return None if found is None else int((found.tag or "0").removeprefix("version "))
