"""A store writes nothing to a schema of another version than the program knows."""

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import NothingDoneError, StoreUnavailableError
from plantstore.plants import NewPlant, Plant
from plantstore.storage import open_store
from plantstore.storage.migrate import newest_version
from plantstore.store import MAINTENANCE_RETRY_SECONDS, MAINTENANCE_SECONDS, Store
from plantstore.tokens import TokenRecord
from support.other_programs import change, engine_of, file_of, schema_of, set_version
from support.postgres import execute, in_the_way, is_waiting, wait_until
from support.stores import OTHER_METHODS, READ_METHODS

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
    "check_writable": lambda store: store.check_writable(),
}

# What a migration to the next version may do to the plants.
NEXT = "ALTER TABLE plants ADD COLUMN color TEXT"


class Fenced:
    """A store, and its database as another program sees it."""

    def __init__(self, url: str, store: Store) -> None:
        self.url = url
        self.store = store
        self.known = newest_version(engine_of(url))

    def content(self) -> list[object]:
        """Return the file and its log, or the rows of all tables with their versions."""
        if engine_of(self.url) == "sqlite":
            return [Path(f"{file_of(self.url)}{suffix}").read_bytes() for suffix in ("", "-wal")]
        names = ("plants", "tokens", "totals", "handed_out_ids", "plantstore_markers")
        return [execute(self.url, f"SELECT *, xmin FROM {name} ORDER BY 1") for name in names]


@pytest.fixture(params=["sqlite", "postgres"])
def fenced(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Fenced]:
    is_postgres = request.param == "postgres"
    url = request.getfixturevalue("url") if is_postgres else f"sqlite:///{tmp_path}/plants.db"
    with contextlib.closing(open_store(url)) as store:
        store.apply_changes([ROSA])
        store.add_token(TOKEN)
        yield Fenced(url, store)


on_postgres = pytest.mark.parametrize("fenced", ["postgres"], indirect=True)


def test_these_are_all_methods_that_read() -> None:
    methods = {name for name in dir(Store) if not name.startswith("_")}

    assert READ_METHODS.keys() | OTHER_METHODS == methods
    assert not READ_METHODS.keys() & OTHER_METHODS


@pytest.mark.parametrize("change", [1, -1], ids=["newer", "older"])
def test_nothing_is_written_to_a_schema_of_another_version_and_reads_continue(
    fenced: Fenced, change: int
) -> None:
    store = fenced.store
    ids = store.hand_out_ids(1)
    store.keep_changes(7)
    set_version(fenced.url, fenced.known + change)
    before = fenced.content()
    # A new connection refuses a newer schema.
    with_new_connection = ("scan_plants", "count_plants")
    reads = [read for name, read in READ_METHODS.items() if name not in with_new_connection]
    found = [read(store) for read in reads]

    for number in range(8):  # the driver prepares a statement after some times
        for write in WRITES.values():
            with pytest.raises(NothingDoneError) as caught:
                write(store)
            said = f"version {fenced.known + change}, and this process knows version {fenced.known}"
            assert said in caught.value.explanation, number
            assert "; restart this process with the installed version" in caught.value.explanation

    assert fenced.content() == before
    assert [read(store) for read in reads] == found
    set_version(fenced.url, fenced.known)
    assert store.apply_changes([ROSA, NewPlant(2, "Abies")]) == [
        Outcome.ALREADY_STORED,
        Outcome.STORED,
    ]
    assert store.hand_out_ids(1)[0] > ids[-1]


@pytest.mark.parametrize("fenced", ["sqlite"], indirect=True)
def test_an_idle_store_does_not_trim_the_feed_of_a_schema_of_another_version(
    fenced: Fenced,
) -> None:
    fenced.store.keep_changes(7)
    fenced.store.apply_changes([NewPlant(2, "Abies")])
    change(fenced.url, "UPDATE changes SET at = 0")
    set_version(fenced.url, fenced.known + 1)
    before = fenced.content()

    assert fenced.store.maintain() == MAINTENANCE_RETRY_SECONDS

    assert fenced.content() == before
    set_version(fenced.url, fenced.known)
    assert fenced.store.maintain() == MAINTENANCE_SECONDS
    assert fenced.content() != before


@on_postgres
def test_a_batch_of_which_a_part_was_stored_before_a_migration_is_in_doubt(
    fenced: Fenced,
) -> None:
    """The taken id is free when its plant is read. The second try to create it is refused."""
    migrates = f"""
        CREATE FUNCTION migrates() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM plants WHERE id = 1;
        INSERT INTO plantstore_migrations VALUES ({fenced.known + 1});
        RETURN NEW; END $$;
        CREATE TRIGGER migrates BEFORE INSERT ON plants
        FOR EACH ROW WHEN (NEW.id = 2) EXECUTE FUNCTION migrates()
    """
    execute(fenced.url, migrates)

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


@contextlib.contextmanager
def migrating(url: str) -> Iterator[None]:
    """Migrate to a later version, as a later program would; run the block during it."""
    with schema_of(url) as schema, schema.locked():
        version = newest_version("postgres") + 1
        schema.apply("SELECT", version)
        yield
        schema.apply(NEXT, version + 1)


def migrate(url: str) -> None:
    with migrating(url):
        pass


@on_postgres
@pytest.mark.parametrize("earlier_creates", [0, 8])
def test_a_write_that_begins_during_a_migration_waits_for_it_and_is_refused(
    fenced: Fenced, pool: ThreadPoolExecutor, earlier_creates: int
) -> None:
    for name, write in WRITES.items():
        with contextlib.closing(open_store(fenced.url)) as store:
            for id_ in range(10, 10 + earlier_creates):  # the driver prepares the statement
                store.apply_changes([NewPlant(id_, "Tilia")])
            before = fenced.content()

            with migrating(fenced.url):
                written = pool.submit(write, store)
                wait_until(lambda: waiting_for(fenced.url, "plantstore_migrations"))
                locked = locked_by_who_waits(fenced.url)

            assert locked == [], f"or the migration and the {name} would wait for each other"
            with pytest.raises(NothingDoneError, match="schema is of another version"):
                written.result(60)
        execute(fenced.url, "ALTER TABLE plants DROP COLUMN color")
        assert fenced.content() == before, name
        set_version(fenced.url, fenced.known)


@on_postgres
@pytest.mark.parametrize(
    ("name", "other", "after"),
    [
        ("create", "INSERT INTO plants (id, name) VALUES (2, 'x')", {"1": "Rosa", "2": "Abies"}),
        ("replace", "SELECT FROM plants WHERE id = 1 FOR UPDATE", {"1": "Abies"}),
        ("delete", "SELECT FROM plants WHERE id = 1 FOR UPDATE", {"2": "Abies"}),
    ],
)
def test_a_migration_waits_for_a_write_that_has_begun(
    fenced: Fenced, pool: ThreadPoolExecutor, name: str, other: str, after: dict[str, str]
) -> None:
    with contextlib.closing(in_the_way(fenced.url, other)) as in_between:
        write = pool.submit(WRITES[name], fenced.store)
        wait_until(lambda: is_waiting(fenced.url))
        migration = pool.submit(migrate, fenced.url)
        wait_until(lambda: waiting_for(fenced.url, "plantstore_migrations"))
        in_between.rollback()

    write.result(60)
    migration.result(60)

    [(plants,)] = execute(fenced.url, "SELECT json_object_agg(id, name) FROM plants")
    assert plants == after
    with pytest.raises(NothingDoneError):
        WRITES[name](fenced.store)


@on_postgres
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
