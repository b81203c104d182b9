"""A store in one SQLite file.

Three connections: one that changes plants, one that reads them, each used by one
thread alone, and one for the tokens, behind a lock. What takes its time (a scan, a
check, a backup) opens its own. Every transaction that writes begins IMMEDIATE, so
that it waits for another process instead of failing half-way. Plants cross over as
JSON, in one row, however many they are: each row lets go of the interpreter lock and
has to wait for it again.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import apsw
import msgspec

from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.sqlite_file import connect, errors_as_ours, make_file, transaction
from plantstore.storage.sqlite_upkeep import back_up, check
from plantstore.store import PAGE_BYTES_MAX, Change, Condition, Outcome, Page, decide
from plantstore.tokens import TokenRecord

_AS_JSON = "json_group_array(json_object('id', id, 'name', name, 'tag', tag) ORDER BY id)"
_SELECT_BY_ID = f"""
SELECT {_AS_JSON} FROM plants WHERE id IN (SELECT value FROM json_each(?))
"""
_UPSERT = """
INSERT INTO plants (id, name, tag)
SELECT value->>'id', value->>'name', value->>'tag' FROM jsonb_each(?) WHERE true
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tag = excluded.tag
"""
_DELETE = "DELETE FROM plants WHERE id IN (SELECT value FROM json_each(?))"
_SUM_BYTES = "coalesce(sum(octet_length(name) + coalesce(octet_length(tag), 0)), 0)"
_INSERT_RECORD = """
INSERT INTO tokens (name, digest, scopes, created_at, expires_at, revoked_at)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
"""
_SELECT_RECORDS = "SELECT name, digest, scopes, created_at, expires_at, revoked_at FROM tokens"

_CANNOT_READ: Final = "The database cannot be read"
_CANNOT_WRITE: Final = "The database cannot be written"

_TokenRow: TypeAlias = tuple[str, bytes, str, int, int | None, int | None]

# Plants in a piece of a scan: enough that SQLite does the most of it, few enough to hold.
_SCAN_PLANTS_MAX: Final = 1000

_encode = msgspec.json.Encoder().encode
_decode_plants = msgspec.json.Decoder(list[NewPlant]).decode


class SQLiteStore:
    """Keeps plants and tokens in a file.

    Args:
        path: the file.
        create: make it, readable to its owner, if it is not there.

    Raises:
        StoreUnavailableError: the file cannot be opened, is no database, is
            another program's, or was written by a newer version.

    """

    def __init__(self, path: str, *, create: bool = True) -> None:
        self._path = path
        with errors_as_ours(f"The database {path} cannot be opened"):
            if create:
                make_file(path)
            elif Path(path).stat().st_size == 0:
                raise StoreUnavailableError(f"The database {path} is empty")
            self._writes = connect(path)
            self._reads = connect(path)
            self._tokens = connect(path)
        self._tokens_lock = threading.Lock()

    def apply_changes(self, changes: Sequence[Change]) -> list[Outcome]:
        with errors_as_ours(_CANNOT_WRITE), transaction(self._writes):
            stored = _select_by_id(self._writes, [change.id for change in changes])
            outcomes, difference = decide(changes, stored)
            there = [plant for plant in difference.values() if plant is not None]
            if there:
                self._writes.execute(_UPSERT, (_to_json(there),))
            if len(there) < len(difference):
                gone = [id_ for id_, plant in difference.items() if plant is None]
                self._writes.execute(_DELETE, (_to_json(gone),))
        return outcomes

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        with errors_as_ours(_CANNOT_READ):
            return _select_by_id(self._reads, ids)

    def list_plants(self, *, after: int | None, limit: int, tag: str | None) -> Page:
        with errors_as_ours(_CANNOT_READ):
            return _select_page(self._reads, after, limit, tag)

    def scan_plants(self) -> Generator[list[NewPlant], None, None]:
        with (
            errors_as_ours(_CANNOT_READ),
            contextlib.closing(connect(self._path)) as connection,
        ):
            connection.execute("BEGIN")  # what the first query sees, all of them see
            page = Page([], is_last=False)
            while not page.is_last:
                after = page.plants[-1].id if page.plants else None
                page = _select_page(connection, after, _SCAN_PLANTS_MAX, None)
                yield page.plants

    def count_plants(self) -> int:
        with errors_as_ours(_CANNOT_READ), contextlib.closing(connect(self._path)) as connection:
            count: int = connection.execute("SELECT count(*) FROM plants").get
            return count

    def check(self) -> Condition:
        with errors_as_ours(_CANNOT_READ):
            return check(self._path)

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> Condition:
        with errors_as_ours("The database cannot be backed up"):
            back_up(self._path, path, progress)
            found = check(path)
        if found.problems:
            raise StoreUnavailableError(f"The copy is not whole: {'; '.join(found.problems)}")
        return found

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
        self._writes.close()
        self._reads.close()
        self._tokens.close()

    def _read_tokens(self, clause: str, *bindings: str | bytes) -> list[TokenRecord]:
        with errors_as_ours(_CANNOT_READ), self._tokens_lock:
            rows = self._tokens.execute(f"{_SELECT_RECORDS} {clause}", bindings)
            return [_token_from_row(row) for row in rows]

    @contextlib.contextmanager
    def _writing_tokens(self) -> Iterator[apsw.Connection]:
        with (
            errors_as_ours(_CANNOT_WRITE),
            self._tokens_lock,
            transaction(self._tokens),
        ):
            yield self._tokens


def _select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    plants = _decode_plants(connection.execute(_SELECT_BY_ID, (_to_json(ids),)).get)
    return {plant.id: plant for plant in plants}


def _select_page(
    connection: apsw.Connection, after: int | None, limit: int, tag: str | None
) -> Page:
    bindings = {"after": ID_MIN if after is None else after, "tag": tag}
    sum_bytes = page_query(_SUM_BYTES, after, tag)
    while limit > 1 and (
        connection.execute(sum_bytes, bindings | {"limit": limit}).get > PAGE_BYTES_MAX
    ):
        limit //= 2
    # One more than asked for, to know whether there is one.
    query = page_query(_AS_JSON, after, tag)
    plants = _decode_plants(connection.execute(query, bindings | {"limit": limit + 1}).get)
    return Page(plants[:limit], is_last=len(plants) <= limit)


def page_query(result: str, after: int | None, tag: str | None) -> str:
    """Return the SQL of a result over a page, which the key or the index of tags serves."""
    where = "id >= :after" if after is None else "id > :after"
    if tag is not None:
        where = f"tag = :tag AND {where}"
    return (
        f"SELECT {result} FROM"
        f" (SELECT id, name, tag FROM plants WHERE {where} ORDER BY id LIMIT :limit)"
    )


def _to_json(values: Sequence[NewPlant] | Sequence[int]) -> str:
    return _encode(values).decode()


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
