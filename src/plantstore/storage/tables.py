"""What the stores of both engines share.

These are the tables of tokens and of handed-out ids, how a change set is closed, and the pages of
tags that are kept. The statements are the same in every engine.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeAlias

import msgspec

from plantstore.errors import OperationError, StoreUnavailableError, quoted
from plantstore.listings import TagListing, TagsPage
from plantstore.plants import ID_MAX
from plantstore.tokens import TokenRecord


def hand_out_query(placeholder: str, greatest: str) -> str:
    """Return the statement that hands out ids, and returns the last one.

    It returns no row if too few ids are left. `hand_out_values` returns its values.

    Args:
        placeholder: for a value.
        greatest: the function that returns the greatest of its arguments.

    """
    return f"""
INSERT INTO handed_out_ids (only_row, last_id)
SELECT 1, stored.id + {placeholder}
FROM (SELECT {greatest}(0, coalesce((SELECT max(id) FROM plants), 0)) AS id) AS stored
WHERE stored.id <= {placeholder}
ON CONFLICT (only_row) DO UPDATE
SET last_id = {greatest}(handed_out_ids.last_id + {placeholder}, excluded.last_id)
WHERE handed_out_ids.last_id <= {placeholder}
RETURNING last_id
"""


def hand_out_values(count: int) -> tuple[int, int, int, int]:
    """Return the values for `hand_out_query`."""
    return count, ID_MAX - count, count, ID_MAX - count


# In the order of a row.
_COLUMNS: Final = "name, digest, scopes, created_at, expires_at, revoked_at"

_Row: TypeAlias = tuple[str, bytes, str, int, int | None, int | None]

_SELECT: Final = f"SELECT {_COLUMNS} FROM tokens"


class TokenAndIdTables(ABC):
    """Implements `TokenStore`, `hand_out_ids` and `close_set` for a store with these tables."""

    placeholder: ClassVar[str]
    """The placeholder for a value in a statement of the engine."""

    greatest: ClassVar[str]
    """The function of the engine that returns the greatest of its arguments."""

    @abstractmethod
    def _read(self, query: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run a query, and return its rows."""

    @abstractmethod
    def _change(self, statement: str, *values: object) -> Sequence[Sequence[Any]]:
        """Run a statement in a durable transaction of its own, and return its rows."""

    def hand_out_ids(self, count: int) -> range:
        query = hand_out_query(self.placeholder, self.greatest)
        rows = self._change(query, *hand_out_values(count))
        if not rows:
            raise OperationError(
                f"Fewer ids than {count} are left above the greatest one in use;"
                " choose free ids yourself"
            )
        [(last_id,)] = rows
        return range(last_id - count + 1, last_id + 1)

    def close_set(self, name: str) -> None:
        close = f"UPDATE change_sets SET closed = true WHERE name = {self.placeholder}"
        self._change(f"{close} RETURNING first_number", name)

    def add_token(self, record: TokenRecord) -> None:
        values = ", ".join([self.placeholder] * 6)
        insert = f"INSERT INTO tokens ({_COLUMNS}) VALUES ({values})"
        # Scopes are separated by spaces (RFC 6749 §3.3).
        scopes = " ".join(sorted(record.scopes))
        row = (record.name, record.digest, scopes)
        times = (record.created_at, record.expires_at, record.revoked_at)
        if not self._change(f"{insert} ON CONFLICT (name) DO NOTHING RETURNING name", *row, *times):
            raise OperationError(
                f"There is a token named {quoted(record.name)} already; choose another name"
            )

    def find_token(self, digest: bytes) -> TokenRecord | None:
        rows = self._read(f"{_SELECT} WHERE digest = {self.placeholder}", digest)
        return _from_row(rows[0]) if rows else None

    def list_tokens(self) -> list[TokenRecord]:
        # By name in the order of code points, whatever the collation of the engine is.
        records = map(_from_row, self._read(_SELECT))
        return sorted(records, key=lambda record: (record.created_at, record.name))

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        # A token that is already revoked is written again. The commit makes sure that the first
        # revocation is durable, too.
        rows = self._change(
            f"UPDATE tokens SET revoked_at = coalesce(revoked_at, {self.placeholder})"
            f" WHERE name = {self.placeholder} RETURNING {_COLUMNS}",
            now,
            name,
        )
        if not rows:
            raise OperationError(
                f"There is no token named {quoted(name)}; `plantstore token list` lists them"
            )
        return _from_row(rows[0])

    def forget_token(self, digest: bytes) -> None:
        self._change(f"DELETE FROM tokens WHERE digest = {self.placeholder} RETURNING name", digest)


# Pages of tags that are kept. Each has 128 KiB at most.
KEPT_PAGES_MAX: Final = 16


class LatestTags:
    """Pages of tags that are kept until the next change: to count them reads all plants."""

    def __init__(self) -> None:
        self._pages: dict[tuple[int, TagListing], TagsPage] = {}

    def read(
        self, listing: TagListing, number: int | None, select: Callable[[], TagsPage]
    ) -> TagsPage:
        """Return a page.

        Args:
            listing: which page.
            number: of the last change, read before; None if the feed is off.
            select: reads the page.

        """
        if number is None:
            return select()
        key = number, listing
        page = self._pages.get(key)
        if page is None:
            if len(self._pages) >= KEPT_PAGES_MAX:
                self._pages = {}
            page = self._pages[key] = select()
        return page


def _from_row(row: Sequence[Any]) -> TokenRecord:
    try:
        name, digest, scopes, created_at, expires_at, revoked_at = msgspec.convert(row, _Row)
    except msgspec.ValidationError as error:
        raise StoreUnavailableError("The tokens are damaged", str(error)) from error
    return TokenRecord(name, digest, frozenset(scopes.split()), created_at, expires_at, revoked_at)
