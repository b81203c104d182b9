"""The schema of a PostgreSQL database: migrations, checks, and databases that are refused."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from plantstore.errors import SchemaOutdatedError, StoreUnavailableError, UnsupportedError
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy, migrations
from plantstore.store import Store
from support.postgres import Databases, Programs, Server, execute

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


def test_a_database_of_the_first_schema_is_migrated_and_keeps_its_plants(
    url: str,
) -> None:
    make_first_schema(url)
    execute(url, "INSERT INTO plants VALUES (1, 'a', 't')")

    for policy in (SchemaPolicy.CREATE, SchemaPolicy.REQUIRE):
        with pytest.raises(SchemaOutdatedError, match=r"has schema 1, but 5 is needed\. Run: "):
            open_store(url, policy)
    with contextlib.closing(open_store(url, SchemaPolicy.ACCEPT)) as store:
        assert store.check() == (1, 1, 0, [])
    with contextlib.closing(open_store(url)) as store:
        assert store.check() == (5, 1, 0, [])
    open_store(url, SchemaPolicy.REQUIRE).close()


@pytest.mark.parametrize("policy", [SchemaPolicy.MIGRATE, SchemaPolicy.CREATE])
def test_many_stores_may_be_opened_on_a_new_database_at_once(
    url: str, policy: SchemaPolicy
) -> None:
    barrier = threading.Barrier(10)

    def open_and_close(_: int) -> None:
        barrier.wait()
        open_store(url, policy).close()

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(open_and_close, range(10)))

    assert execute(url, "SELECT version FROM plantstore_migrations ORDER BY version") == [
        (1,),
        (2,),
        (3,),
        (4,),
        (5,),
    ]


def make_first_schema(url: str) -> None:
    execute(url, migrations("postgres")[0])
    execute(url, "INSERT INTO plantstore_migrations VALUES (1)")


def test_a_database_of_a_newer_version_is_refused(url: str) -> None:
    open_store(url).close()
    execute(url, "INSERT INTO plantstore_migrations VALUES (99)")

    for policy in SchemaPolicy:
        with pytest.raises(StoreUnavailableError, match="written by a newer Plant Store"):
            open_store(url, policy)


def test_an_empty_database_gets_a_schema_only_if_the_policy_may_create_one(url: str) -> None:
    for policy in (SchemaPolicy.REQUIRE, SchemaPolicy.ACCEPT):
        with pytest.raises(StoreUnavailableError, match="is empty"):
            open_store(url, policy)

    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"
    assert execute(url, tables) == [(0,)]
    open_store(url, SchemaPolicy.CREATE).close()
    open_store(url, SchemaPolicy.REQUIRE).close()


def test_a_database_of_another_program_is_refused_and_not_changed(url: str) -> None:
    execute(url, "CREATE TABLE plants (kilowatts int)")

    with pytest.raises(StoreUnavailableError, match="another program's") as caught:
        open_store(url)

    assert "\n" not in caught.value.explanation
    assert execute(url, "SELECT * FROM plants") == []
    assert execute(url, "SELECT to_regclass('tokens'), to_regclass('plantstore_migrations')") == [
        (None, None)
    ]


def test_a_role_that_may_not_create_tables_gets_an_error_that_says_so(
    postgres_programs: Programs,
) -> None:
    with Server(postgres_programs, "roles") as server:
        server.execute("CREATE ROLE reader LOGIN")
        url = server.url().replace("postgres@", "reader@")

        with pytest.raises(StoreUnavailableError) as caught:
            open_store(url)
        assert "permission denied for schema public" in caught.value.explanation
        with pytest.raises(StoreUnavailableError) as caught:
            open_store(f"{url}?options=-csearch_path%3Dnowhere")
        assert "no schema has been selected" in caught.value.explanation


def test_a_store_works_in_a_schema_of_any_name(databases: Databases) -> None:
    execute(databases.url, 'CREATE SCHEMA "a b"')
    try:
        url = f"{databases.url}?options=-csearch_path%3D%22a%5C%20b%22"
        with contextlib.closing(open_store(url)) as store:
            assert store.check() == (5, 0, 0, [])
    finally:
        execute(databases.url, 'DROP SCHEMA "a b" CASCADE')


def test_a_check_names_each_difference_from_the_schema(url: str, store: Store) -> None:
    store.apply_changes([PLANT])
    execute(url, "DROP INDEX plants_by_tag")
    execute(url, "ALTER TABLE plants ALTER name DROP NOT NULL")
    execute(url, "ALTER TABLE tokens DROP COLUMN digest")
    execute(url, "CREATE INDEX of_the_operator ON plants (name)")

    assert store.check() == (
        5,
        1,
        0,
        [
            "plants.name differs from the schema",
            "plants_by_tag differs from the schema",
            "tokens.digest differs from the schema",
            "tokens_digest_key differs from the schema",
            'tokens cannot be read: column "digest" does not exist',
        ],
    )


def test_a_backup_is_refused_and_the_error_names_pg_dump(store: Store) -> None:
    with pytest.raises(UnsupportedError, match="pg_dump"):
        store.back_up("copy", lambda _done, _total: None)
