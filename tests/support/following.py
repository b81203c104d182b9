"""A copy of the plants that follows the feed of a store, and checks the promises of the feed."""

from plantstore.feed import Kind, Recorded
from plantstore.plants import NewPlant
from plantstore.store import PlantStore


class Copy:
    """Plants that are kept by reading the feed. `number` is that of the last change read."""

    def __init__(self, plants: dict[int, NewPlant] | None = None, number: int = 0) -> None:
        self.plants = dict(plants or {})
        self.number = number
        self.changes: list[Recorded] = []

    def follow(self, store: PlantStore, limit: int = 100) -> "Copy":
        """Read all changes that are there."""
        is_last = False
        while not is_last:
            page = store.read_changes(self.number, limit)
            for change in page.items:
                self.apply(change)
            assert page.end == self.number
            is_last = page.is_last
        return self

    def apply(self, change: Recorded) -> None:
        assert change.number > self.number
        assert (change.id in self.plants) is (change.kind != Kind.CREATED)
        if change.kind == Kind.DELETED:
            del self.plants[change.id]
        else:
            assert change.name is not None
            self.plants[change.id] = NewPlant(change.id, change.name, change.tag)
        self.number = change.number
        self.changes.append(change)
