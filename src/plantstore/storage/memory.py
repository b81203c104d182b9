"""A store that forgets: for tests, held to the same contract as the durable ones."""

import threading
from collections.abc import Sequence

import msgspec

from plantstore.errors import UsageError
from plantstore.plants import NewPlant
from plantstore.store import Outcome, decide
from plantstore.tokens import TokenRecord


class MemoryStore:
    """Keeps plants and tokens in dictionaries, for as long as it lives."""

    def __init__(self) -> None:
        self.plants: dict[int, NewPlant] = {}
        self._tokens: dict[str, TokenRecord] = {}
        self._lock = threading.Lock()

    def create_plants(self, plants: Sequence[NewPlant]) -> list[Outcome]:
        outcomes, _ = decide(plants, self.plants)
        return outcomes

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

    def close(self) -> None:
        pass
