"""A store in one SQLite file.

Two connections: one for the plants, used by the writer's thread alone, and one
for the tokens, behind a lock. Every transaction that writes begins IMMEDIATE, so
that it waits for another process instead of failing half-way, and every batch is
a handful of statements whatever its size: each one lets go of the interpreter
lock and has to wait for it again.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import apsw
import msgspec

from plantstore.errors import UsageError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite_file import connect, errors_as_ours, make_file, transaction
from plantstore.store import Outcome, decide
from plantstore.tokens import TokenRecord

_SELECT_STORED = """
SELECT id, name, tag FROM plants WHERE id IN (SELECT value FROM json_each(?))
"""
_INSERT_NEW = """
INSERT INTO plants (id, name, tag)
SELECT value->>'id', value->>'name', value->>'tag' FROM json_each(?)
"""
_INSERT_RECORD = """
INSERT INTO tokens (name, digest, scopes, created_at, expires_at, revoked_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
"""
_SELECT_RECORDS = "SELECT name, digest, scopes, created_at, expires_at, revoked_at FROM tokens"

_TokenRow: TypeAlias = tuple[str, bytes, str, int, int | None, int | None]

_encode = msgspec.json.Encoder().encode


class SQLiteStore:
    """Keeps plants and tokens in a file, which it makes, readable to its owner, if need be.

    Raises:
        StoreUnavailableError: the file cannot be opened, is no database, is
            another program's, or was written by a newer version.

    """

    def __init__(self, path: str) -> None:
        with errors_as_ours(f"The database {path} cannot be opened"):
            make_file(path)
            self._plants = connect(path)
            self._tokens = connect(path)
        self._tokens_lock = threading.Lock()

    def create_plants(self, plants: Sequence[NewPlant]) -> list[Outcome]:
        with errors_as_ours("The database cannot be written"), transaction(self._plants):
            ids = _encode([plant.id for plant in plants]).decode()
            rows = self._plants.execute(_SELECT_STORED, (ids,))
            stored = {id_: NewPlant(id_, name, tag) for id_, name, tag in rows}
            outcomes, new = decide(plants, stored)
            if new:
                self._plants.execute(_INSERT_NEW, (_encode(new).decode(),))
        return outcomes

    def add_token(self, record: TokenRecord) -> None:
        with self._writing_tokens() as connection:
            connection.execute(_INSERT_RECORD, _token_to_row(record))
            added = connection.changes()
        if not added:
            raise UsageError(f"There is a token named {record.name!r} already")

    def find_token(self, digest: bytes) -> TokenRecord | None:
        records = self._read_tokens("WHERE digest = ?", digest)
        return records[0] if records else None

    def list_tokens(self) -> list[TokenRecord]:
        return self._read_tokens("ORDER BY created_at, name")

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        with self._writing_tokens() as connection:
            connection.execute(
                "UPDATE tokens SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL",
                (now, name),
            )
        records = self._read_tokens("WHERE name = ?", name)
        if not records:
            raise UsageError(f"There is no token named {name!r}")
        return records[0]

    def close(self) -> None:
        self._plants.close()
        self._tokens.close()

    def _read_tokens(self, clause: str, *bindings: str | bytes) -> list[TokenRecord]:
        with errors_as_ours("The database cannot be read"), self._tokens_lock:
            rows = self._tokens.execute(f"{_SELECT_RECORDS} {clause}", bindings)
            return [_token_from_row(row) for row in rows]

    @contextlib.contextmanager
    def _writing_tokens(self) -> Iterator[apsw.Connection]:
        with (
            errors_as_ours("The database cannot be written"),
            self._tokens_lock,
            transaction(self._tokens),
        ):
            yield self._tokens


def _token_to_row(record: TokenRecord) -> _TokenRow:
    return (
        record.name,
        record.digest,
        " ".join(sorted(record.scopes)),
        record.created_at,
        record.expires_at,
        record.revoked_at,
    )


def _token_from_row(row: _TokenRow) -> TokenRecord:
    name, digest, scopes, created_at, expires_at, revoked_at = row
    return TokenRecord(name, digest, frozenset(scopes.split()), created_at, expires_at, revoked_at)
