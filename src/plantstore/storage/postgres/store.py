"""A store in a database of PostgreSQL, or of what speaks its language.

Five connections: one that changes plants, one that looks them up, and one that reads
pages of them, each used by one thread alone; one for the tokens and one for probes,
each behind a lock. Each is made when it is first used, and made again when it was
lost. One more for each server of the URL watches which is the primary. What takes its
time (a scan, a check) opens its own. Any number of stores may work on one database, in any
number of processes: they keep nothing of their own.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

from psycopg import IsolationLevel
from psycopg.rows import TupleRow

from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.observe import Observer, ignore
from plantstore.plants import NewPlant
from plantstore.storage.migrate import SchemaPolicy, prepare
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import MISSING, errors_as_ours, retried
from plantstore.storage.postgres.link import Link
from plantstore.storage.postgres.maintenance import PostgresSchema, check
from plantstore.storage.postgres.plants import (
    apply_changes,
    find_features,
    select_by_id,
    select_page,
    trace,
)
from plantstore.storage.postgres.pooler import insist_on_sessions
from plantstore.storage.postgres.servers import Servers
from plantstore.storage.postgres.url import parse_url
from plantstore.storage.token_rows import COLUMNS, from_row, to_row
from plantstore.store import SCAN_PLANTS_MAX, Change, Condition, Outcome, Page, scan
from plantstore.tokens import TokenRecord

_INSERT_RECORD: Final = f"""
INSERT INTO tokens ({COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO NOTHING
RETURNING name
"""
_SELECT_RECORDS: Final = f"SELECT {COLUMNS} FROM tokens"

_REVOKE_RECORD: Final = f"""
UPDATE tokens SET revoked_at = coalesce(revoked_at, %s) WHERE name = %s RETURNING {COLUMNS}
"""

_MAY_CREATE: Final = """
SELECT has_table_privilege('plants', 'SELECT') AND has_table_privilege('plants', 'INSERT')
"""

_CANNOT_READ: Final = "The database cannot be read"
_CANNOT_WRITE: Final = "The database cannot be written"


class PostgresStore:
    """Keeps plants and tokens in a database.

    Args:
        url: the database, as libpq takes it
            (https://www.postgresql.org/docs/current/libpq-connect.html).
        database: what messages call it.
        policy: what to do about its schema.
        standbys_min: how many synchronous standbys a change must stand on.
        observe: is told which server is the primary, whenever that changes.

    Raises:
        UsageError: the URL cannot be read.
        StoreUnavailableError: the database cannot be reached, is another
            program's, or its schema is not what the policy asks for.

    """

    def __init__(
        self,
        url: str,
        database: str,
        policy: SchemaPolicy = SchemaPolicy.MIGRATE,
        *,
        standbys_min: int = 0,
        observe: Observer = ignore,
    ) -> None:
        self._database = database
        self._servers = Servers(parse_url(url), observe=observe, standbys_min=standbys_min)
        try:
            with self._unbounded() as connection, errors_as_ours(f"{database} cannot be opened"):
                insist_on_sessions(connection)
                prepare(PostgresSchema(connection, database), policy)
                self._features = find_features(connection)
        except BaseException:
            self._servers.close()
            raise
        self._writes, self._probes = (Link(self._servers, for_changes=True) for _ in range(2))
        self._reads, self._pages, self._tokens = (Link(self._servers) for _ in range(3))
        self._tokens_lock = threading.Lock()
        self._probes_lock = threading.Lock()

    def apply_changes(self, changes: Sequence[Change]) -> list[Outcome]:
        with self._writes.using(_CANNOT_WRITE) as connection:
            return apply_changes(connection, changes, self._features)

    def trim(self) -> bool:
        return True

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        with self._reads.using(_CANNOT_READ) as connection:
            return retried(lambda: select_by_id(connection, ids))

    def list_plants(self, *, after: int | None, limit: int, tag: str | None) -> Page:
        with self._pages.using(_CANNOT_READ) as connection:
            return retried(lambda: select_page(connection, after, limit, tag))

    def scan_plants(self) -> Generator[list[NewPlant], None, None]:
        with self._snapshot() as connection:
            yield from scan(lambda after: select_page(connection, after, SCAN_PLANTS_MAX, None))

    def count_plants(self) -> int:
        with self._snapshot() as connection:
            [[count]] = connection.execute("SELECT count(*) FROM plants")
            return int(count)

    def probe(self) -> None:
        with self._probes_lock, self._probes.using(_CANNOT_WRITE) as connection:
            retried(lambda: connection.execute_durably(*trace(self._features)))
            with contextlib.suppress(*MISSING):  # another engine
                [(may_create,)] = connection.execute(_MAY_CREATE)
                if not may_create:
                    raise StoreUnavailableError(_CANNOT_WRITE, "the role may not create plants")

    def check(self) -> Condition:
        with self._snapshot() as connection:
            return check(connection, self._database)

    def back_up(self, path: str, progress: Callable[[int, int], None]) -> Condition:  # noqa: ARG002
        raise UsageError(
            "PostgreSQL is backed up by its own programs: pg_dump copies the database,"
            " pg_basebackup all that the server keeps"
        )

    def occupies(self, path: Path) -> bool:  # noqa: ARG002
        return False

    def add_token(self, record: TokenRecord) -> None:
        if not self._change_tokens(_INSERT_RECORD, *to_row(record)):
            raise UsageError(f"There is a token named {record.name!r} already")

    def find_token(self, digest: bytes) -> TokenRecord | None:
        records = self._read_tokens("WHERE digest = %s", digest)
        return records[0] if records else None

    def list_tokens(self) -> list[TokenRecord]:
        return self._read_tokens('ORDER BY created_at, name COLLATE "C"')

    def revoke_token(self, name: str, now: int) -> TokenRecord:
        # Revoked again or not, it is written, and so as safe as it will ever be.
        rows = self._change_tokens(_REVOKE_RECORD, now, name)
        if not rows:
            raise UsageError(f"There is no token named {name!r}")
        return from_row(rows[0])

    def forget_token(self, digest: bytes) -> None:
        self._change_tokens("DELETE FROM tokens WHERE digest = %s", digest)

    def close(self) -> None:
        with self._tokens_lock, self._probes_lock:
            for link in (self._writes, self._reads, self._pages, self._tokens, self._probes):
                link.close()
        self._servers.close()

    def _read_tokens(self, clause: str, *bindings: str | bytes) -> list[TokenRecord]:
        query = f"{_SELECT_RECORDS} {clause}"
        with self._tokens_lock, self._tokens.using(_CANNOT_READ) as connection:
            rows = retried(lambda: connection.execute(query, bindings))
            return [from_row(row) for row in rows]

    def _change_tokens(self, statement: str, *bindings: object) -> list[TupleRow]:
        with self._tokens_lock, self._tokens.using(_CANNOT_WRITE) as connection:
            return retried(lambda: connection.execute_durably(statement, bindings))

    @contextlib.contextmanager
    def _unbounded(self) -> Iterator[Connection]:
        """Give a connection of its own, for what takes as long as it takes."""
        with contextlib.closing(self._servers.connect(is_bounded=False)) as connection:
            yield connection

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[Connection]:
        """Give a connection to which the store stays as it is when first asked."""
        with self._unbounded() as connection, errors_as_ours(_CANNOT_READ):
            connection.isolation_level = IsolationLevel.REPEATABLE_READ
            with connection.transaction():
                yield connection
