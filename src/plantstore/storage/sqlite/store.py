"""A store in one SQLite file.

Five connections: one that changes plants, one that looks them up, and one that reads
pages of them, each used by one thread alone; one for the tokens and one for probes,
each behind a lock. What takes its time (a scan, a check, a backup) opens its own. Every
transaction that writes begins IMMEDIATE, so that it waits for another process instead
of failing half-way.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

import apsw

from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.plants import NewPlant
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.file import (
    connect,
    errors_as_ours,
    make_file,
    sync_log,
    transaction,
    wait_for_another,
)
from plantstore.storage.sqlite.log import Log
from plantstore.storage.sqlite.maintenance import STEP_PAGES, back_up, check
from plantstore.storage.sqlite.owner import insist_on_ours
from plantstore.storage.sqlite.plants import apply_changes, select_by_id, select_page
from plantstore.storage.sqlite.users import insist_on_shared_files
from plantstore.storage.sqlite.watch import Watch
from plantstore.storage.token_rows import COLUMNS, from_row, to_row
from plantstore.store import SCAN_PLANTS_MAX, Change, Condition, Outcome, Page, scan
from plantstore.tokens import TokenRecord

_INSERT_RECORD: Final = f"""
INSERT INTO tokens ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (name) DO NOTHING
"""
_SELECT_RECORDS: Final = f"SELECT {COLUMNS} FROM tokens"

_CANNOT_READ: Final = "The database cannot be read"
_CANNOT_WRITE: Final = "The database cannot be written"


class SQLiteStore:
    """Keeps plants and tokens in a file.

    Args:
        path: the file.
        policy: what to do about its schema. To MIGRATE makes the file, readable to
            its owner, if it is not there.
        monotonic: a clock in seconds that is never set back.

    Raises:
        StoreUnavailableError: the file cannot be opened, is no database, is
            another program's, or its schema is not what the policy asks for.

    """

    def __init__(
        self,
        path: str,
        policy: SchemaPolicy = SchemaPolicy.MIGRATE,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = path
        # SQLite puts the log beside the file that a symbolic link leads to. It would also take a
        # relative name such as ":memory:" for its own.
        self._path = os.path.realpath(path)
        self._tokens_lock = threading.Lock()
        self._probes_lock = threading.Lock()
        with errors_as_ours(f"The database {path} cannot be opened"):
            if insist_on_ours(self._path, path):
                insist_on_shared_files(self._path, path)
            if policy is SchemaPolicy.MIGRATE:
                make_file(self._path)
            else:
                Path(path).stat()
            self._open(policy, monotonic)

    def _open(self, policy: SchemaPolicy, monotonic: Callable[[], float]) -> None:
        self._writes = connect(self._path, self._name, policy)
        sync_log(self._writes)
        self._reads, self._pages, self._tokens, self._probes = (
            connect(self._path, self._name, policy) for _ in range(4)
        )
        # Again: a file may have gone while these were opened.
        insist_on_shared_files(self._path, self._name)
        self._watch = Watch(self._path, self._writes, wait_for_another, monotonic)
        self._log = Log(self._writes)

    def apply_changes(self, changes: Sequence[Change]) -> list[Outcome]:
        with errors_as_ours(_CANNOT_WRITE):
            with self._watch.over(self._writes), transaction(self._writes):
                outcomes = apply_changes(self._writes, changes)
            self._log.bound()
        return outcomes

    def trim(self) -> bool:
        try:
            with errors_as_ours(_CANNOT_WRITE):
                self._watch.insist(self._writes)
        except StoreUnavailableError:
            return False
        return self._log.trim()

    def find_plants(self, ids: Sequence[int]) -> dict[int, NewPlant]:
        with errors_as_ours(_CANNOT_READ):
            return select_by_id(self._reads, ids)

    def list_plants(self, *, after: int | None, limit: int, tag: str | None) -> Page:
        with errors_as_ours(_CANNOT_READ):
            return select_page(self._pages, after, limit, tag)

    def scan_plants(self) -> Generator[list[NewPlant], None, None]:
        with errors_as_ours(_CANNOT_READ), self._snapshot() as connection:
            yield from scan(lambda after: select_page(connection, after, SCAN_PLANTS_MAX, None))

    def count_plants(self) -> int:
        with errors_as_ours(_CANNOT_READ), self._snapshot() as connection:
            count: int = connection.execute("SELECT count(*) FROM plants").get
            return count

    def probe(self) -> None:
        with (
            errors_as_ours(_CANNOT_WRITE),
            self._probes_lock,
            self._watch.over(self._probes),
            transaction(self._probes),
        ):
            # Written though it stays the same: a page, and not the schema.
            self._probes.pragma("user_version", self._probes.pragma("user_version"))

    def check(self) -> Condition:
        with errors_as_ours(_CANNOT_READ), self._snapshot() as connection:
            return check(connection, self._name)

    def back_up(
        self, path: str, progress: Callable[[int, int], None], *, step_pages: int = STEP_PAGES
    ) -> Condition:
        with errors_as_ours("The database cannot be backed up"):
            with self._snapshot() as connection:
                back_up(connection, path, progress, step_pages)
            with contextlib.closing(SQLiteStore(path, SchemaPolicy.ACCEPT)) as copy:
                found = copy.check()
        if found.problems:
            raise StoreUnavailableError(f"The copy is not whole: {'; '.join(found.problems)}")
        return found

    def occupies(self, path: Path) -> bool:
        files = (Path(f"{self._path}{suffix}") for suffix in ("", "-wal", "-shm"))
        return path.exists() and any(file.exists() and file.samefile(path) for file in files)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[apsw.Connection]:
        """Give a connection to which the store is, for good, as it is now."""
        self._watch.insist_on_names()
        with contextlib.closing(connect(self._path, self._name)) as connection:
            connection.execute("BEGIN; SELECT count(*) FROM sqlite_schema").fetchall()
            yield connection

    def add_token(self, record: TokenRecord) -> None:
        with self._writing_tokens() as connection:
            connection.execute(_INSERT_RECORD, to_row(record))
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

    def forget_token(self, digest: bytes) -> None:
        with self._writing_tokens() as connection:
            connection.execute("DELETE FROM tokens WHERE digest = ?", (digest,))

    def close(self) -> None:
        connections = [self._writes, self._reads, self._pages, self._tokens]
        with self._probes_lock:
            self._watch.close([*connections, self._probes])

    def _read_tokens(self, clause: str, *bindings: str | bytes) -> list[TokenRecord]:
        with errors_as_ours(_CANNOT_READ), self._tokens_lock:
            rows = self._tokens.execute(f"{_SELECT_RECORDS} {clause}", bindings)
            return [from_row(row) for row in rows]

    @contextlib.contextmanager
    def _writing_tokens(self) -> Iterator[apsw.Connection]:
        with (
            errors_as_ours(_CANNOT_WRITE),
            self._tokens_lock,
            self._watch.over(self._tokens),
            transaction(self._tokens),
        ):
            yield self._tokens
