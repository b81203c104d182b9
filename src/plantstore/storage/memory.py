"""A store that forgets: for tests, held to the same contract as the durable ones."""

import threading
from collections.abc import Callable, Generator, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec

from plantstore.decision import decide
from plantstore.errors import UsageError
from plantstore.plants import NewPlant
from plantstore.store import Change, Condition, Outcome, Page
from plantstore.tokens import TokenRecord


class MemoryStore:
    """Keeps plants and tokens in dictionaries, for as long as it lives."""

    def __init__(self) -> None:
        self.plants: dict[int, NewPlant] = {}
        self._tokens: dict[str, TokenRecord] = {}
        self._lock = threading.Lock()

    def apply_changes(self, changes: Sequence[Change]) -> list[Outcome]:
        outcomes, _ = decide(changes, self.plants)
        return outcomes

    def trim(self) -> bool:
        return True

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        return {id_: self.plants[id_] for id_ in ids if id_ in self.plants}

    def list_plants(self, *, after: int | None, limit: int, tag: str | None) -> Page:
        rest = [
            plant
            for plant in self._sorted()
            if (after is None or plant.id > after) and (tag is None or plant.tag == tag)
        ]
        return Page(rest[:limit], is_last=len(rest) <= limit)

    def scan_plants(self) -> Generator[list[NewPlant], None, None]:
        yield self._sorted()  # the plants that it holds are frozen

    def count_plants(self) -> int:
        return len(self.plants)

    def probe(self) -> None:
        pass

    def check(self) -> Condition:
        return Condition(0, len(self.plants), len(self._tokens), [])

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> Condition:  # noqa: ARG002
        raise UsageError("A store in memory cannot be backed up")

    def occupies(self, path: Path) -> bool:  # noqa: ARG002
        return False

    def add_token(self, record: TokenRecord) -> None:
        with self._lock:
            if record.name in self._tokens:
                raise UsageError(f"There is a token named {record.name!r} already")
            self._tokens[record.name] = record

    def find_token(self, digest: bytes) -> TokenRecord | None:
        with self._lock:
            return next((r for r in self._tokens.values() if r.digest == digest), None)

    def list_tokens(self) -> list[TokenRecord]:
        with self._lock:
            return sorted(self._tokens.values(), key=lambda r: (r.created_at, r.name))

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        with self._lock:
            record = self._tokens.get(name)
            if record is None:
                raise UsageError(f"There is no token named {name!r}")
            if record.revoked_at is None:
                record = self._tokens[name] = msgspec.structs.replace(record, revoked_at=now)
            return record

    def forget_token(self, digest: bytes) -> None:
        with self._lock:
            for name in [r.name for r in self._tokens.values() if r.digest == digest]:
                del self._tokens[name]

    def close(self) -> None:
        pass

    def _sorted(self) -> list[NewPlant]:
        return sorted(self.plants.values(), key=attrgetter("id"))
