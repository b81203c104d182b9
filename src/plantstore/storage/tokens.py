"""The table of tokens. Its columns and statements are the same in every engine."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from plantstore.errors import OperationError, StoreUnavailableError
from plantstore.tokens import TokenRecord

# In the order of a row.
_COLUMNS: Final = "name, digest, scopes, created_at, expires_at, revoked_at"

_Row: TypeAlias = tuple[str, bytes, str, int, int | None, int | None]

_SELECT: Final = f"SELECT {_COLUMNS} FROM tokens"


class TokenTable(ABC):
    """Implements `plantstore.store.TokenStore` for a store with a table of tokens."""

    placeholder: ClassVar[str]
    """The placeholder for a value in a statement of the engine."""

    @abstractmethod
    def _read_tokens(self, query: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run a query, and return its rows."""

    @abstractmethod
    def _change_tokens(self, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run a statement in a durable transaction of its own, and return its rows."""

    def add_token(self, record: TokenRecord) -> None:
        values = ", ".join([self.placeholder] * 6)
        insert = f"INSERT INTO tokens ({_COLUMNS}) VALUES ({values})"
        # Scopes are separated by spaces (RFC 6749 §3.3).
        scopes = " ".join(sorted(record.scopes))
        row = (record.name, record.digest, scopes)
        times = (record.created_at, record.expires_at, record.revoked_at)
        if not self._change_tokens(
            f"{insert} ON CONFLICT (name) DO NOTHING RETURNING name", *row, *times
        ):
            raise name_taken(record.name)

    def find_token(self, digest: bytes) -> TokenRecord | None:
        rows = self._read_tokens(f"{_SELECT} WHERE digest = {self.placeholder}", digest)
        return _from_row(rows[0]) if rows else None

    def list_tokens(self) -> list[TokenRecord]:
        return in_order(map(_from_row, self._read_tokens(_SELECT)))

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        # A token that is already revoked is written again. The commit makes sure that the first
        # revocation is durable, too.
        rows = self._change_tokens(
            f"UPDATE tokens SET revoked_at = coalesce(revoked_at, {self.placeholder})"
            f" WHERE name = {self.placeholder} RETURNING {_COLUMNS}",
            now,
            name,
        )
        if not rows:
            raise no_such_token(name)
        return _from_row(rows[0])

    def forget_token(self, digest: bytes) -> None:
        self._change_tokens(
            f"DELETE FROM tokens WHERE digest = {self.placeholder} RETURNING name", digest
        )


def in_order(records: Iterable[TokenRecord]) -> list[TokenRecord]:
    """Return tokens by time of creation, then by name, in the order of their code points."""
    return sorted(records, key=lambda record: (record.created_at, record.name))


def name_taken(name: str) -> OperationError:
    """Return the error for a new token whose name is in use."""
    return OperationError(f"There is a token named {name!r} already; choose another name")


def no_such_token(name: str) -> OperationError:
    """Return the error for a name that no token has."""
    return OperationError(f"There is no token named {name!r}; `plantstore token list` lists them")


def _from_row(row: Sequence[Any]) -> TokenRecord:
    try:
        name, digest, scopes, created_at, expires_at, revoked_at = msgspec.convert(row, _Row)
    except msgspec.ValidationError as error:
        raise StoreUnavailableError("The tokens are damaged", str(error)) from error
    return TokenRecord(name, digest, frozenset(scopes.split()), created_at, expires_at, revoked_at)
