"""Tokens as rows of a table, which are the same in every engine."""

from typing import Final, TypeAlias

from plantstore.tokens import TokenRecord

# In the order of a row.
COLUMNS: Final = "name, digest, scopes, created_at, expires_at, revoked_at"

TokenRow: TypeAlias = tuple[str, bytes, str, int, int | None, int | None]


def to_row(record: TokenRecord) -> TokenRow:
    """Return the values of the columns; scopes are parted by spaces (RFC 6749 §3.3)."""
    return (
        record.name,
        record.digest,
        " ".join(sorted(record.scopes)),
        record.created_at,
        record.expires_at,
        record.revoked_at,
    )


def from_row(row: TokenRow) -> TokenRecord:
    """Return the token that a row holds."""
    name, digest, scopes, created_at, expires_at, revoked_at = row
    return TokenRecord(name, digest, frozenset(scopes.split()), created_at, expires_at, revoked_at)
