"""What a store in PostgreSQL promises beyond what every store does."""

import contextlib
import functools
import hashlib
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from plantstore.errors import StoreUnavailableError, StoreUnreachableError, UsageError
from plantstore.plants import NewPlant, Plant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy, migrations
from plantstore.storage.postgres_connection import Connection, connect, parse_url
from plantstore.storage.postgres_link import Link
from plantstore.storage.postgres_plants import page_query
from plantstore.store import Change, Deletion, Outcome, Replacement, Store
from plantstore.tokens import TokenRecord
from postgres import Databases, Programs, Server, execute, wait_until

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def url(databases: Databases) -> str:
    return databases.new()


@pytest.fixture
def opened() -> Iterator[Callable[[str], Store]]:
    """Return what opens stores, which are closed in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda url: stack.enter_context(contextlib.closing(open_store(url)))


@pytest.fixture
def store(url: str, opened: Callable[[str], Store]) -> Store:
    return opened(url)


@contextlib.contextmanager
def connected(url: str) -> Iterator[Connection]:
    with contextlib.closing(connect(parse_url(url))) as connection:
        yield connection


def setting(connection: Connection, name: str) -> str:
    [[value]] = connection.execute("SELECT current_setting(%s)", (name,))
    return str(value)


@pytest.mark.parametrize(
    ("asked_for", "used"),
    [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_no_setting_makes_a_commit_wait_for_less_than_the_disk(
    url: str, asked_for: str, used: str
) -> None:
    with connected(f"{url}%20-csynchronous_commit%3D{asked_for}") as connection:
        assert setting(connection, "synchronous_commit") == used


def test_every_wait_has_an_end_which_the_url_may_move(url: str) -> None:
    with connected(url) as connection:
        assert setting(connection, "statement_timeout") == "10s"
        assert setting(connection, "lock_timeout") == "5s"
        assert connection.wait_seconds == 12
    with connected(f"{url}%20-cstatement_timeout%3D1500%20-clock_timeout%3D700") as connection:
        assert setting(connection, "statement_timeout") == "1500ms"
        assert setting(connection, "lock_timeout") == "700ms"
        assert connection.wait_seconds == 3.5


def test_a_connection_reads_what_is_committed_and_speaks_utf_8(url: str) -> None:
    with connected(f"{url}%20-cdefault_transaction_isolation%3Dserializable") as connection:
        assert setting(connection, "transaction_isolation") == "read committed"
        assert setting(connection, "client_encoding") == "UTF8"


def test_a_server_that_does_not_sync_is_refused(postgres_programs: Programs) -> None:
    with (
        Server(postgres_programs, "unsafe", fsync="off") as server,
        pytest.raises(StoreUnavailableError, match="fsync = off"),
    ):
        open_store(server.url())


def test_a_database_of_another_encoding_is_refused(postgres_programs: Programs) -> None:
    with Server(postgres_programs, "latin") as server:
        server.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'")

        with pytest.raises(StoreUnavailableError, match="LATIN1, not UTF8"):
            open_store(server.url("latin"))


def test_a_database_that_cannot_be_reached_is_one_line_that_an_operator_understands() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        open_store("postgresql://ann:secret@127.0.0.1:1,127.0.0.1:2/garden")

    assert caught.value.message == "The database cannot be reached"
    assert "Connection refused" in caught.value.explanation
    assert "\n" not in caught.value.explanation
    assert "secret" not in caught.value.explanation


def test_long_tags_are_stored_and_listed_by_the_whole_of_them(store: Store) -> None:
    tags = ["x" * 5000, "x" * 5000 + "y", "🌱" * 300_000]
    plants = [NewPlant(id_, "a", tag) for id_, tag in enumerate(tags)]
    store.apply_changes(plants)

    for plant in plants:
        assert store.list_plants(after=None, limit=9, tag=plant.tag) == ([plant], True)


# Two texts with one MD5 (Marc Stevens, 2024), which is what the index of tags holds.
COLLIDING = "TEXTCOLLBYfGiJUETHQ4h{}cKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"


def test_tags_of_one_hash_are_told_apart(store: Store) -> None:
    tags = [COLLIDING.format(letter) for letter in "AE"]
    assert len({hashlib.md5(tag.encode()).digest() for tag in tags}) == 1
    plants = [NewPlant(id_, "a", tag) for id_, tag in enumerate(tags)]
    store.apply_changes(plants)

    for plant in plants:
        assert store.list_plants(after=None, limit=9, tag=plant.tag) == ([plant], True)


def test_a_tag_that_no_plant_can_have_lists_none(store: Store) -> None:
    store.apply_changes([PLANT])

    assert store.list_plants(after=None, limit=9, tag="a\0") == ([], True)


def test_a_page_of_large_plants_is_cut_short_but_never_empty(store: Store) -> None:
    plants = [NewPlant(id_, "x" * 400_000) for id_ in range(5)]
    plants.append(NewPlant(5, "x" * 2_000_000))
    store.apply_changes(plants)

    assert store.list_plants(after=None, limit=9, tag=None) == (plants[:2], False)
    assert store.list_plants(after=1, limit=2, tag=None) == (plants[2:4], False)
    assert store.list_plants(after=3, limit=9, tag=None) == (plants[4:5], False)
    assert store.list_plants(after=4, limit=9, tag=None) == (plants[5:], True)
    assert [plant for plants in store.scan_plants() for plant in plants] == plants


@pytest.mark.parametrize("after", [None, 5000])
@pytest.mark.parametrize("tag", [None, "1"])
@pytest.mark.parametrize("is_known", [False, True])
def test_no_listing_scans_whatever_the_planner_knows(
    url: str, store: Store, after: int | None, tag: str | None, *, is_known: bool
) -> None:
    store.apply_changes([NewPlant(id_, "a", f"{id_ % 2}") for id_ in range(10_000)])
    bindings = {"after": after or 0, "tag": tag, "limit": 101, "bytes_max": 10**6}

    with connected(url) as connection:
        if is_known:
            connection.execute("ANALYZE plants")
        explain = "EXPLAIN " + page_query(after, tag).replace(")b", ")s")
        plan = "\n".join(line for (line,) in connection.execute(explain.encode(), bindings))

    assert f"Index Scan using {'plants_by_tag' if tag else 'plants_pkey'}" in plan
    assert "Seq Scan" not in plan
    assert "Sort" not in plan


def test_small_requests_about_large_plants_are_decided_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plantstore.storage.postgres_plants.BATCH_BYTES_MAX", 1000)
    plants = [NewPlant(id_, "x" * 400) for id_ in range(8)]
    store.apply_changes(plants)

    outcomes = store.apply_changes(
        [
            *(plants[0], NewPlant(1, "b"), Deletion(2), NewPlant(2, "new"), Deletion(9)),
            *(Replacement(3, Plant("c")), Replacement(10, Plant("d")), plants[4]),
        ]
    )

    assert [outcome.name for outcome in outcomes] == [
        *("ALREADY_STORED", "ID_TAKEN", "DELETED", "STORED", "NO_SUCH_PLANT"),
        *("REPLACED", "NO_SUCH_PLANT", "ALREADY_STORED"),
    ]


def in_the_way(url: str, statement: str) -> psycopg.Connection:
    """Begin a transaction that does something, and leave it open."""
    connection = psycopg.connect(url)
    connection.execute(statement.encode())
    return connection


def is_waiting(url: str) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return execute(url, waiting) != [(0,)]


@pytest.mark.parametrize(
    ("changes", "end", "outcomes"),
    [
        ([NewPlant(5, "mine")], "COMMIT", [Outcome.ID_TAKEN]),
        ([NewPlant(5, "theirs")], "COMMIT", [Outcome.ALREADY_STORED]),
        ([NewPlant(5, "mine")], "ROLLBACK", [Outcome.STORED]),
        (
            [Deletion(9), NewPlant(5, "mine"), Replacement(5, Plant("b"))],
            "COMMIT",
            [Outcome.NO_SUCH_PLANT, Outcome.ID_TAKEN, Outcome.REPLACED],
        ),
        (
            [Deletion(9), NewPlant(5, "mine"), Deletion(5)],
            "ROLLBACK",
            [Outcome.NO_SUCH_PLANT, Outcome.STORED, Outcome.DELETED],
        ),
    ],
)
def test_a_change_waits_for_another_store_that_takes_the_same_id(
    url: str, store: Store, changes: Sequence[Change], end: str, outcomes: list[Outcome]
) -> None:
    with (
        contextlib.closing(in_the_way(url, "INSERT INTO plants VALUES (5, 'theirs')")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        made = pool.submit(store.apply_changes, changes)
        if outcomes[-1] is not Outcome.DELETED:  # one that comes and goes takes no id
            wait_until(lambda: is_waiting(url))
        other.execute(end.encode())

        assert made.result(60) == outcomes


def test_a_plant_that_comes_and_goes_in_a_batch_takes_no_other_along(
    url: str, store: Store
) -> None:
    changes: list[Change] = [NewPlant(4, "mine"), NewPlant(5, "mine"), Deletion(5)]
    with (
        contextlib.closing(in_the_way(url, "INSERT INTO plants VALUES (4, 'theirs')")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        made = pool.submit(store.apply_changes, changes)
        wait_until(lambda: is_waiting(url))  # it has decided, and not written yet
        execute(url, "INSERT INTO plants VALUES (5, 'theirs')")
        other.rollback()

        assert made.result(60) == [Outcome.STORED, Outcome.STORED, Outcome.DELETED]
        assert store.find_plants([5]) == {5: NewPlant(5, "theirs")}


def test_ids_are_taken_in_their_order_so_that_nobody_waits_in_a_circle(
    url: str, store: Store
) -> None:
    changes = [NewPlant(id_, "mine") for id_ in (3, 2, 1)]
    with (
        contextlib.closing(in_the_way(url, "INSERT INTO plants VALUES (2, 'theirs')")) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        made = pool.submit(store.apply_changes, changes)
        wait_until(lambda: is_waiting(url))
        other.execute("INSERT INTO plants VALUES (3, 'theirs')")
        other.commit()

        assert made.result(60) == [Outcome.ID_TAKEN, Outcome.ID_TAKEN, Outcome.STORED]


def test_a_lock_that_is_never_let_go_is_503_and_the_next_change_is_made(
    url: str, opened: Callable[[str], Store]
) -> None:
    store = opened(f"{url}%20-clock_timeout%3D50")
    store.apply_changes([PLANT])
    with contextlib.closing(in_the_way(url, "DELETE FROM plants")) as other:
        with pytest.raises(StoreUnavailableError, match="cannot be written") as caught:
            store.apply_changes([Deletion(1)])
        assert "lock timeout" in caught.value.reason
        assert store.apply_changes([NewPlant(2, "b")]) == [Outcome.STORED]
        other.rollback()

    assert store.apply_changes([Deletion(1)]) == [Outcome.DELETED]


def test_stores_that_change_the_same_plants_never_wait_for_each_other(
    url: str, opened: Callable[[str], Store]
) -> None:
    """A circle of waits would end in an error, after a second."""

    def change(number: int) -> set[Outcome]:
        choose = random.Random(number)
        store, outcomes = opened(url), set()
        for _ in range(300):
            changes: list[Change] = []
            for id_ in choose.sample(range(30), 8):
                new = NewPlant(id_, f"{number}")
                others: list[Change] = [Replacement(id_, Plant(f"{number}")), Deletion(id_)]
                changes.append(choose.choice([new, new, new, *others]))
            outcomes |= set(store.apply_changes(changes))
        return outcomes

    with contextlib.closing(open_store(url)), ThreadPoolExecutor(4) as pool:
        seen = set.union(*pool.map(change, range(4)))

    assert seen == set(Outcome)


def test_two_stores_on_one_database_take_an_id_once(
    url: str, opened: Callable[[str], Store]
) -> None:
    barrier = threading.Barrier(3)

    def create(number: int) -> list[Outcome]:
        store = opened(url)
        barrier.wait()
        return [
            outcome
            for start in range(0, 300, 3)
            for outcome in store.apply_changes(
                [NewPlant(start + n, f"by {number}") for n in range(3)]
            )
        ]

    with contextlib.closing(open_store(url)), ThreadPoolExecutor(3) as pool:
        outcomes = list(pool.map(create, range(3)))

    for thirds in zip(*outcomes, strict=True):
        assert sorted(outcome.name for outcome in thirds) == ["ID_TAKEN", "ID_TAKEN", "STORED"]


# What a commit waits for.


@pytest.fixture
def pair(postgres_programs: Programs) -> Iterator[tuple[Server, Server]]:
    """Return a primary, and the standby that its commits wait for."""
    with Server(postgres_programs, "primary") as primary, primary.standby("standby") as standby:
        primary.wait_for_standby("standby")
        yield primary, standby


def waits_for_the_standby(server: Server) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    return server.execute(waiting) != [(0,)]


@pytest.mark.parametrize("what", ["create", "replace", "delete", "revoke"])
def test_what_no_standby_has_is_not_acknowledged_when_it_is_asked_for_again(
    pair: tuple[Server, Server], opened: Callable[[str], Store], what: str
) -> None:
    """A commit whose wait is cancelled is done, on the primary alone."""
    primary, standby = pair
    store = opened(primary.url())
    store.apply_changes([PLANT])
    store.add_token(TokenRecord("a", b"x" * 32, frozenset(), 1))
    ask: Callable[[], object] = {
        "create": lambda: store.apply_changes([NewPlant(2, "b")]),
        "replace": lambda: store.apply_changes([Replacement(1, Plant("b"))]),
        "delete": lambda: store.apply_changes([Deletion(1)]),
        "revoke": lambda: store.revoke_token("a", 5),
    }[what]
    standby.stop()

    with ThreadPoolExecutor(1) as pool:
        for _ in range(2):
            asked = pool.submit(ask)
            wait_until(lambda: waits_for_the_standby(primary))
            primary.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
            )
            with pytest.raises(StoreUnavailableError, match="written") as caught:
                asked.result(60)
            assert "wait for the synchronous standby" in caught.value.reason
        asked = pool.submit(ask)
        wait_until(lambda: waits_for_the_standby(primary))
        assert not asked.done()
        standby.start()
        asked.result(60)


def test_a_commit_that_is_given_up_leaves_no_session_and_no_lock_behind(
    pair: tuple[Server, Server], opened: Callable[[str], Store]
) -> None:
    primary, standby = pair
    store = opened(primary.url() + "?options=-cstatement_timeout%3D100")
    store.apply_changes([PLANT])
    standby.stop()

    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="cannot be written"):
            store.apply_changes([NewPlant(2, "b")])

    wait_until(lambda: not waits_for_the_standby(primary))
    with pytest.raises(StoreUnavailableError):
        store.probe()
    standby.start()
    wait_until(lambda: is_back(store))


def test_a_warning_that_is_about_something_else_fails_nothing(url: str, store: Store) -> None:
    execute(
        url,
        """
        CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE WARNING 'the database must be vacuumed'; RETURN NEW; END $$
        """,
    )
    execute(url, "CREATE TRIGGER warn BEFORE INSERT ON plants EXECUTE FUNCTION warn()")

    assert store.apply_changes([PLANT]) == [Outcome.STORED]


# Schema.


def test_a_database_of_the_first_schema_is_brought_up_to_date_and_keeps_its_plants(
    url: str,
) -> None:
    make_first_schema(url)
    execute(url, "INSERT INTO plants VALUES (1, 'a', 't')")

    with pytest.raises(StoreUnavailableError, match="schema is 1, this Plant Store needs 2; run"):
        open_store(url, SchemaPolicy.REQUIRE)
    with contextlib.closing(open_store(url, SchemaPolicy.ACCEPT)) as store:
        assert store.check() == (1, 1, 0, [])
    with contextlib.closing(open_store(url)) as store:
        assert store.check() == (2, 1, 0, [])
    open_store(url, SchemaPolicy.REQUIRE).close()


def test_many_stores_may_be_opened_on_a_new_database_at_once(url: str) -> None:
    barrier = threading.Barrier(10)

    def open_and_close(_: int) -> None:
        barrier.wait()
        open_store(url).close()

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(open_and_close, range(10)))

    assert execute(url, "SELECT version FROM plantstore_migrations ORDER BY version") == [
        (1,),
        (2,),
    ]


def make_first_schema(url: str) -> None:
    execute(url, migrations("postgres")[0])
    execute(url, "INSERT INTO plantstore_migrations VALUES (1)")


def test_a_database_of_a_newer_version_is_refused_and_left_alone(url: str) -> None:
    open_store(url).close()
    execute(url, "INSERT INTO plantstore_migrations VALUES (99)")

    for policy in SchemaPolicy:
        with pytest.raises(StoreUnavailableError, match="written by a newer Plant Store"):
            open_store(url, policy)


def test_an_empty_database_is_made_only_when_asked_for(url: str) -> None:
    for policy in (SchemaPolicy.ACCEPT, SchemaPolicy.REQUIRE):
        with pytest.raises(StoreUnavailableError, match="is empty"):
            open_store(url, policy)

    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
    assert execute(url, tables) == [(0,)]


def test_a_database_of_another_program_is_refused_and_left_alone(url: str) -> None:
    execute(url, "CREATE TABLE plants (kilowatts int)")

    with pytest.raises(StoreUnavailableError, match="another program's") as caught:
        open_store(url)

    assert "\n" not in caught.value.explanation
    assert execute(url, "SELECT * FROM plants") == []
    assert execute(url, "SELECT to_regclass('tokens'), to_regclass('plantstore_migrations')") == [
        (None, None)
    ]


def test_a_role_that_may_not_make_tables_is_told_so(postgres_programs: Programs) -> None:
    with Server(postgres_programs, "roles") as server:
        server.execute("CREATE ROLE reader LOGIN")
        url = server.url().replace("postgres@", "reader@")

        with pytest.raises(StoreUnavailableError) as caught:
            open_store(url)
        assert "permission denied for schema public" in caught.value.explanation
        with pytest.raises(StoreUnavailableError) as caught:
            open_store(f"{url}?options=-csearch_path%3Dnowhere")
        assert "no schema has been selected" in caught.value.explanation


def test_a_table_that_is_not_there_is_the_servers_fault_and_not_ours(
    url: str, store: Store
) -> None:
    store.apply_changes([PLANT])
    execute(url, "ALTER TABLE plants RENAME TO gone")
    with pytest.raises(StoreUnavailableError) as caught:
        store.apply_changes([NewPlant(2, "b")])
    assert "plants" in caught.value.reason

    execute(url, "ALTER TABLE gone RENAME TO plants")
    wait_until(lambda: is_back(store))
    assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]


def test_a_store_in_a_schema_of_any_name_is_whole(databases: Databases) -> None:
    execute(databases.url, 'CREATE SCHEMA "a b"')
    try:
        url = f"{databases.url}?options=-csearch_path%3D%22a%5C%20b%22"
        with contextlib.closing(open_store(url)) as store:
            assert store.check() == (2, 0, 0, [])
    finally:
        execute(databases.url, 'DROP SCHEMA "a b" CASCADE')


def test_a_check_names_what_is_not_as_it_must_be(url: str, store: Store) -> None:
    store.apply_changes([PLANT])
    execute(url, "DROP INDEX plants_by_tag")
    execute(url, "ALTER TABLE plants ALTER name DROP NOT NULL")
    execute(url, "ALTER TABLE tokens DROP COLUMN digest")
    execute(url, "CREATE INDEX of_the_operator ON plants (name)")

    assert store.check() == (
        2,
        1,
        0,
        [
            "plants.name is not as the schema has it",
            "plants_by_tag is not as the schema has it",
            "tokens.digest is not as the schema has it",
            "tokens_digest_key is not as the schema has it",
            'tokens cannot be read: column "digest" does not exist',
        ],
    )


def test_a_backup_says_which_programs_make_one(store: Store) -> None:
    with pytest.raises(UsageError, match="pg_dump"):
        store.back_up("copy", lambda _done, _total: None)


# A server that goes, or hangs.


def test_a_server_that_restarts_is_found_again_and_a_cut_off_change_is_of_unknown_fate(
    postgres_programs: Programs,
) -> None:
    with (
        Server(postgres_programs, "restarting") as server,
        contextlib.closing(open_store(server.url())) as store,
    ):
        store.apply_changes([PLANT])
        store.probe()
        server.stop()

        with pytest.raises(StoreUnavailableError) as cut_off:
            store.apply_changes([NewPlant(2, "b")])
        with pytest.raises(StoreUnreachableError):
            store.apply_changes([NewPlant(2, "b")])
        with pytest.raises(StoreUnavailableError):
            store.find_plants([1])
        with pytest.raises(StoreUnavailableError):
            store.probe()
        server.start()
        wait_until(lambda: is_back(store))

        assert not isinstance(cut_off.value, StoreUnreachableError)
        assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]
        assert store.find_plants([1]) == {1: PLANT}


def fails(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except StoreUnavailableError:
        return True
    return False


def pid(link: Link) -> int:
    with link.using("It failed") as connection:
        return connection.info.backend_pid


def test_an_idle_connection_is_kept_and_one_that_was_lost_meanwhile_is_made_again(
    url: str,
) -> None:
    now = 0.0
    link = Link(functools.partial(connect, parse_url(url)), lambda: now)
    first = pid(link)

    now += 100
    assert pid(link) == first
    execute(url, f"SELECT pg_terminate_backend({first}, 60000)")
    now += 100
    assert pid(link) != first
    link.close()


def test_what_only_the_statement_is_to_blame_for_costs_no_connection(url: str) -> None:
    open_store(url).close()
    link = Link(functools.partial(connect, parse_url(f"{url}%20-clock_timeout%3D50")))
    first = pid(link)
    with contextlib.closing(in_the_way(url, "LOCK TABLE plants")):
        for _ in range(3):
            with (
                pytest.raises(StoreUnavailableError),
                link.using("It failed") as connection,
                connection.transaction(),
            ):
                connection.execute("SELECT * FROM plants")

    assert pid(link) == first
    link.close()


def is_back(store: Store) -> bool:
    return not any(
        fails(ask)
        for ask in (store.probe, lambda: store.find_plants([1]), lambda: store.apply_changes([]))
    )


def test_a_server_that_no_longer_takes_writes_is_not_ready(postgres_programs: Programs) -> None:
    with (
        Server(postgres_programs, "read_only") as server,
        contextlib.closing(open_store(server.url())) as store,
    ):
        store.apply_changes([PLANT])
        assert store.find_plants([1]) == {1: PLANT}
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        server.execute("SELECT pg_reload_conf()")

        # Another server may take the writes now: what this one says may be old.
        wait_until(lambda: fails(lambda: store.find_plants([1])))
        wait_until(lambda: fails(lambda: store.apply_changes([PLANT])))
        wait_until(lambda: fails(store.probe))
        with pytest.raises(StoreUnavailableError) as caught:
            open_store(server.url())
        assert "read-only" in caught.value.reason

        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")
        wait_until(lambda: is_back(store))


def test_a_server_that_hangs_is_given_up_and_found_again(postgres_programs: Programs) -> None:
    with Server(postgres_programs, "hanging") as server:
        bounds = "?connect_timeout=2&options=-cstatement_timeout%3D100"
        with contextlib.closing(open_store(server.url() + bounds)) as store:
            store.apply_changes([PLANT])
            server.signal_all(signal.SIGSTOP)

            with pytest.raises(StoreUnavailableError, match="cannot be written"):
                store.apply_changes([NewPlant(2, "b")])
            with pytest.raises(StoreUnreachableError) as unreachable:
                store.apply_changes([NewPlant(2, "b")])
            server.signal_all(signal.SIGCONT)
            wait_until(lambda: is_back(store))

            assert "timeout" in unreachable.value.reason
            assert store.apply_changes([NewPlant(2, "b")])[0] in (
                Outcome.STORED,
                Outcome.ALREADY_STORED,
            )
