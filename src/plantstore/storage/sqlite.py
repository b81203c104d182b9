"""A store in one SQLite file.

Durability: WAL with `synchronous=FULL`, so a commit returns after its frames are
synced, and `fullfsync` where the platform's fsync does not reach the disk itself.
A crash at any point leaves a log that SQLite replays or discards by itself at the
next start (https://sqlite.org/wal.html).

Two connections: one for the plants, used by the writer's thread alone, and one
for the tokens, behind a lock. Every transaction that writes begins IMMEDIATE, so
that it waits for another process instead of failing half-way, and every batch is
a handful of statements whatever its size: each one lets go of the interpreter
lock and has to wait for it again.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import apsw
import msgspec

from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.plants import NewPlant
from plantstore.storage.migrate import migrations
from plantstore.store import Outcome, decide
from plantstore.tokens import TokenRecord

# Says whose file this is, in its header (https://sqlite.org/fileformat2.html#application_id).
APPLICATION_ID: Final = int.from_bytes(b"plst")

# How often to ask whether another process has done its write, and how often at most:
# about a second in all. SQLite's own waits grow to a tenth of a second, in which one
# that commits back to back never leaves a gap that the other one sees.
BUSY_POLL_SECONDS: Final = 0.000_3
BUSY_POLLS_MAX: Final = 3_000

# The log is copied into the database every so many pages, and cut back to this
# size if a long read once kept it from being copied.
CHECKPOINT_PAGES: Final = 4_000
LOG_BYTES_MAX: Final = 64 * 1024 * 1024

# What the inner pages of a B-tree of some ten million plants take.
CACHE_KIB: Final = 16 * 1024

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
        with _errors_as_ours(f"The database {path} cannot be opened"):
            _make_file(path)
            self._plants = _connect(path)
            self._tokens = _connect(path)
        self._tokens_lock = threading.Lock()

    def create_plants(self, plants: Sequence[NewPlant]) -> list[Outcome]:
        with _errors_as_ours("The database cannot be written"), _transaction(self._plants):
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
        with _errors_as_ours("The database cannot be read"), self._tokens_lock:
            rows = self._tokens.execute(f"{_SELECT_RECORDS} {clause}", bindings)
            return [_token_from_row(row) for row in rows]

    @contextlib.contextmanager
    def _writing_tokens(self) -> Iterator[apsw.Connection]:
        with (
            _errors_as_ours("The database cannot be written"),
            self._tokens_lock,
            _transaction(self._tokens),
        ):
            yield self._tokens


def _make_file(path: str) -> None:
    # SQLite would make it with the mode that the umask leaves. Nothing else may
    # open the file by itself: closing it would drop this process's locks on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _connect(path: str) -> apsw.Connection:
    # The absolute path: SQLite would take a name such as ":memory:" for its own.
    connection = apsw.Connection(str(Path(path).absolute()), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_handler(_wait_for_another)
    if connection.readonly("main"):
        raise StoreUnavailableError(f"The database {path} cannot be written: it is read-only")
    # Only when this returns is it known to be ours, and may be changed.
    _migrate(connection, path)
    for pragma in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        f"wal_autocheckpoint = {CHECKPOINT_PAGES}",
        f"journal_size_limit = {LOG_BYTES_MAX}",
        f"cache_size = -{CACHE_KIB}",
    ):
        connection.execute(f"PRAGMA {pragma}")
    # After a crash, SQLite brings back what it finds whole in the log, synced or not. This
    # syncs it, before anybody is told that such a plant is stored already.
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    return connection


def _wait_for_another(polls: int) -> bool:
    time.sleep(BUSY_POLL_SECONDS)
    return polls < BUSY_POLLS_MAX


def _migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the schema up to date; the file's header counts the migrations applied."""
    steps = migrations("sqlite")
    if _version(connection, path, len(steps)) == len(steps):
        return
    with _transaction(connection):
        # Many processes may start at once: look again, now that none other writes.
        for step in steps[_version(connection, path, len(steps)) :]:
            connection.execute(step)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", len(steps))


def _version(connection: apsw.Connection, path: str, known: int) -> int:
    # In this order: another process may migrate between any two of these.
    objects = connection.execute("SELECT count(*) FROM sqlite_schema").get
    is_ours = connection.pragma("application_id") == APPLICATION_ID
    version: int = connection.pragma("user_version")
    if objects and not is_ours:
        raise StoreUnavailableError(f"The database {path} is another program's")
    if version > known:
        raise StoreUnavailableError(
            f"The database {path} was written by a newer Plant Store "
            f"(its schema is {version}, the newest that this one knows is {known})"
        )
    return version


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


@contextlib.contextmanager
def _transaction(connection: apsw.Connection) -> Iterator[None]:
    """Commit what the block does, or undo it all.

    apsw's own `with connection` would hold the interpreter lock, and with it the
    event loop, while it waits for the disk or for another process.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _errors_as_ours(what: str) -> Iterator[None]:
    """Raise what the storage is to blame for as StoreUnavailableError; a bug stays a bug."""
    try:
        yield
    except (
        OSError,
        apsw.BusyError,
        apsw.CantOpenError,
        apsw.CorruptError,
        apsw.FullError,
        apsw.IOError,
        apsw.LockedError,
        apsw.NoMemError,
        apsw.NotADBError,
        apsw.PermissionsError,
        apsw.ProtocolError,
        apsw.ReadOnlyError,
    ) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreUnavailableError(f"{what}: {reason}") from error
