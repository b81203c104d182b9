"""A store writes nothing to a schema of another version than the program knows."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.listings import Listing
from plantstore.plants import NewPlant, Plant
from plantstore.storage import open_store
from plantstore.storage.migrate import newest_version
from plantstore.storage.postgres.maintenance import PostgresSchema
from plantstore.store import TIDY_SECONDS, TIDY_SOON_SECONDS, Store
from plantstore.tokens import TokenRecord
from support.postgres import Databases, connected, execute, in_the_way, wait_until
from support.shared_writer import StoreOfWorker

ROSA = NewPlant(1, "Rosa", "t")
TOKEN = TokenRecord("first", b"1", frozenset(["plants:read"]), 0)

WRITES: dict[str, Callable[[Store], object]] = {
    "create": lambda store: store.apply_changes([NewPlant(2, "Abies")]),
    "creates": lambda store: store.apply_changes([NewPlant(id_, "Abies") for id_ in (2, 1, 3)]),
    "create again": lambda store: store.apply_changes([ROSA]),
    "replace": lambda store: store.apply_changes([Replacement(1, Plant("Abies"))]),
    "delete": lambda store: store.apply_changes([NewPlant(2, "Abies"), Deletion(1)]),
    "nothing to delete": lambda store: store.apply_changes([Deletion(9)]),
    "add token": lambda store: store.add_token(TokenRecord("second", b"2", frozenset(), 0)),
    "revoke token": lambda store: store.revoke_token("first", 7),
    "forget token": lambda store: store.forget_token(b"1"),
    "hand out ids": lambda store: store.hand_out_ids(3),
    "probe": lambda store: store.probe(),
}

# What a migration to the next version may do to the plants.
NEXT = "ALTER TABLE plants ADD COLUMN color TEXT"


class Fenced:
    """A store, and the means to change its database as another program would."""

    def __init__(self, engine: str, folder: Path, databases: Callable[[], Databases]) -> None:
        self.file = folder / "plants.db"
        self.engine = "postgres" if engine == "postgres" else "sqlite"
        self.url = databases().new() if engine == "postgres" else f"sqlite:///{self.file}"
        self.store = StoreOfWorker(self.file) if engine == "shared" else open_store(self.url)
        self.known = newest_version(self.engine)

    def set_version(self, version: int) -> None:
        if self.engine == "sqlite":
            with contextlib.closing(apsw.Connection(str(self.file))) as connection:
                connection.pragma("user_version", version)
        else:
            execute(self.url, "DELETE FROM plantstore_migrations")
            for number in range(1, version + 1):
                execute(self.url, f"INSERT INTO plantstore_migrations VALUES ({number})")

    def content(self) -> list[object]:
        """Return the size of the log, and the rows of all tables, or their versions."""
        if self.engine == "sqlite":
            with contextlib.closing(apsw.Connection(str(self.file))) as connection:
                tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
                return [
                    Path(f"{self.file}-wal").stat().st_size,
                    *(
                        connection.execute(f"SELECT * FROM {table}").fetchall()
                        for (table,) in connection.execute(tables).fetchall()
                    ),
                ]
        names = ("plants", "tokens", "totals", "handed_out_ids", "plantstore_markers")
        return [execute(self.url, f"SELECT *, xmin FROM {name} ORDER BY 1") for name in names]


@pytest.fixture(params=["sqlite", "shared", "postgres"])
def fenced(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fenced]:
    fenced = Fenced(request.param, tmp_path, lambda: request.getfixturevalue("databases"))
    with contextlib.closing(fenced.store) as store:
        store.apply_changes([ROSA])
        store.add_token(TOKEN)
        yield fenced


@pytest.mark.parametrize("change", [1, -1], ids=["newer", "older"])
def test_nothing_is_written_to_a_schema_of_another_version_and_reads_continue(
    fenced: Fenced, change: int
) -> None:
    store = fenced.store
    ids = store.hand_out_ids(1)
    fenced.set_version(fenced.known + change)
    before = fenced.content()

    for number in range(8):  # the driver prepares a statement after some times
        for write in WRITES.values():
            with pytest.raises(StoreUnreachableError) as caught:
                write(store)
            said = f"version {fenced.known + change}, and this process knows version {fenced.known}"
            assert said in caught.value.explanation, number
            assert "; restart this process with the installed version" in caught.value.explanation

    assert fenced.content() == before
    assert store.find_plants([1, 2]) == {1: ROSA}
    assert store.list_plants(Listing(words=("ro",), has_total=True)).plants == [ROSA]
    assert store.find_token(b"1") == TOKEN
    fenced.set_version(fenced.known)
    assert store.apply_changes([ROSA, NewPlant(2, "Abies")]) == [
        Outcome.ALREADY_STORED,
        Outcome.STORED,
    ]
    assert store.hand_out_ids(1)[0] > ids[-1]


@pytest.mark.parametrize("fenced", ["sqlite"], indirect=True)
def test_an_idle_store_does_not_merge_the_index_of_a_schema_of_another_version(
    fenced: Fenced,
) -> None:
    for id_ in range(2, 6):
        fenced.store.apply_changes([NewPlant(id_, "Abies")])
    fenced.set_version(fenced.known + 1)
    before = fenced.content()

    assert fenced.store.tidy() == TIDY_SOON_SECONDS

    assert fenced.content() == before
    fenced.set_version(fenced.known)
    assert fenced.store.tidy() == 0
    while fenced.store.tidy() == 0:
        pass
    assert fenced.store.tidy() == TIDY_SECONDS


@pytest.mark.parametrize("fenced", ["postgres"], indirect=True)
def test_a_batch_of_which_a_part_was_stored_before_a_migration_is_in_doubt(
    fenced: Fenced,
) -> None:
    """The taken id is free when its plant is read. The second try to create it is refused."""
    migrates = f"""
        CREATE FUNCTION migrates() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM plants WHERE id = 1;
        INSERT INTO plantstore_migrations VALUES ({fenced.known + 1});
        RETURN NEW; END $$
    """
    execute(fenced.url, migrates)
    execute(
        fenced.url,
        "CREATE TRIGGER migrates BEFORE INSERT ON plants"
        " FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION migrates()",
    )

    with pytest.raises(StoreUnavailableError, match="schema is of another version") as caught:
        fenced.store.apply_changes([ROSA, NewPlant(2, "Abies")])

    assert type(caught.value) is StoreUnavailableError
    assert fenced.store.find_plants([1, 2]) == {2: NewPlant(2, "Abies")}


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def waiting_for(url: str, table: str, condition: str = "true") -> bool:
    waiting = f"""
        SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND relation = '{table}'::regclass AND {condition}
    """
    return execute(url, waiting) != [(0,)]


def locked_by_who_waits(url: str) -> list[str]:
    """Return the tables of plants and tokens that a connection has locked which waits."""
    return [
        table
        for (table,) in execute(
            url,
            "SELECT relation::regclass::text FROM pg_locks AS held WHERE granted"
            " AND relation = ANY (ARRAY['plants', 'tokens', 'handed_out_ids']::regclass[])"
            " AND EXISTS (SELECT FROM pg_locks WHERE NOT granted AND pid = held.pid)",
        )
    ]


def migrate(url: str, once_locked: Callable[[], object] = lambda: None) -> None:
    """Migrate to the next version, as a later program would."""
    with connected(url) as connection:
        schema = PostgresSchema(connection, "it")
        with schema.locked():
            version = newest_version("postgres") + 1
            schema.apply("SELECT", version)
            once_locked()
            connection.execute(NEXT.encode())


@pytest.mark.parametrize("fenced", ["postgres"], indirect=True)
@pytest.mark.parametrize("earlier_creates", [0, 8])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_that_begins_during_a_migration_waits_for_it_and_is_refused(
    fenced: Fenced, pool: ThreadPoolExecutor, name: str, earlier_creates: int
) -> None:
    for id_ in range(10, 10 + earlier_creates):  # the driver prepares the statement
        fenced.store.apply_changes([NewPlant(id_, "Tilia")])
    writes: list[Future[object]] = []
    locked: list[str] = []

    def begin_to_write() -> None:
        writes.append(pool.submit(WRITES[name], fenced.store))
        wait_until(lambda: waiting_for(fenced.url, "plantstore_migrations"))
        locked.extend(locked_by_who_waits(fenced.url))

    before = fenced.content()
    migrate(fenced.url, begin_to_write)

    assert locked == [], "or the migration and the write would wait for each other"
    [write] = writes
    with pytest.raises(StoreUnreachableError, match="schema is of another version"):
        write.result(60)
    execute(fenced.url, "ALTER TABLE plants DROP COLUMN color")
    assert fenced.content() == before


@pytest.mark.parametrize("fenced", ["postgres"], indirect=True)
@pytest.mark.parametrize("name", ["create", "replace", "delete"])
def test_a_migration_waits_for_a_write_that_has_begun(
    fenced: Fenced, pool: ThreadPoolExecutor, name: str
) -> None:
    other = "INSERT INTO plants (id, name) VALUES (2, 'x')" if name == "create" else ""
    with contextlib.closing(
        in_the_way(fenced.url, other or "SELECT FROM plants WHERE id = 1 FOR UPDATE")
    ) as in_between:
        write = pool.submit(WRITES[name], fenced.store)
        wait_until(lambda: _waits_for_a_row(fenced.url))
        migration = pool.submit(migrate, fenced.url)
        wait_until(lambda: waiting_for(fenced.url, "plantstore_migrations"))
        in_between.rollback()

    write.result(60)
    migration.result(60)

    [(plants,)] = execute(fenced.url, "SELECT json_object_agg(id, name) FROM plants")
    assert (
        plants
        == {
            "create": {"1": "Rosa", "2": "Abies"},
            "replace": {"1": "Abies"},
            "delete": {"2": "Abies"},
        }[name]
    )
    with pytest.raises(StoreUnreachableError):
        WRITES[name](fenced.store)


@pytest.mark.parametrize("fenced", ["postgres"], indirect=True)
def test_a_store_that_is_opened_during_a_migration_waits_for_its_end(
    fenced: Fenced, pool: ThreadPoolExecutor
) -> None:
    """It waits longer than other statements may wait for a lock."""
    longer = "state_change < clock_timestamp() - interval '0.2 s'"
    with contextlib.closing(
        in_the_way(fenced.url, "LOCK TABLE plantstore_migrations IN ACCESS EXCLUSIVE MODE")
    ) as migration:
        opened = pool.submit(open_store, f"{fenced.url}%20-clock_timeout%3D50")
        wait_until(lambda: waiting_for(fenced.url, "plantstore_migrations", longer))
        migration.rollback()

    store = opened.result(60)
    assert store.find_plants([1]) == {1: ROSA}
    store.close()


def _waits_for_a_row(url: str) -> bool:
    return execute(
        url,
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE wait_event IN ('transactionid', 'tuple') AND application_name = 'plantstore'",
    ) != [(0,)]
