"""The schema of a database, and the rights of a role that uses the tables of another role."""

import contextlib
import uuid
from collections.abc import Iterator
from typing import NamedTuple

import psycopg
import pytest
from psycopg import sql

from plantstore.changes import Deletion, InSet, Outcome, Replacement
from plantstore.errors import (
    BatchRefusedError,
    OperationError,
    PlantStoreError,
    StoreUnavailableError,
    UsageError,
)
from plantstore.listings import Count, Listing
from plantstore.plants import NewPlant, Plant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy, newest_version
from plantstore.storage.postgres.postgres_maintenance import RIGHTS
from plantstore.store import CheckReport, Store
from plantstore.tokens import TokenRecord
from support.postgres import Programs, Server, execute

pytestmark = pytest.mark.engines("postgres")

VERSION = newest_version("postgres")
PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
TOKEN = TokenRecord("t", b"digest", frozenset({"plants:read"}), 0)

# A name that must be quoted.
USER = 'the "user\'s"; DROP TABLE plants; --'
ADVICE = "; run plantstore migrate --grant-to ROLE as the owner"


class Urls(NamedTuple):
    """The URLs of a database: for the superuser, the owner of its tables, and their user."""

    admin: str
    owner: str
    user: str


@pytest.fixture(scope="module")
def server(postgres_programs: Programs) -> Iterator[Server]:
    with Server(postgres_programs, "rights") as server:
        server.execute("CREATE ROLE owner LOGIN")
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(USER)))
        yield server


def test_the_servers_of_the_tests_do_not_order_texts_by_code_points(server: Server) -> None:
    """So a statement that lacks the collation "C" fails its tests."""
    if server.programs.locale == "C":
        pytest.skip("needs the source of the locale en_US: apt-get install locales")

    assert server.execute("SELECT 'a' < 'B', 'a' < 'B' COLLATE \"C\"") == [(True, False)]


@pytest.fixture
def urls(server: Server) -> Iterator[Urls]:
    """Make a database. Only its owner may enter its schema, whose name must be quoted."""
    server.execute("CREATE DATABASE garden OWNER owner")
    admin = f"{server.url('garden')}?options=-csearch_path%3D%22the%5C%20beds%22"
    execute(admin, 'CREATE SCHEMA "the beds" AUTHORIZATION owner')
    user = "".join(f"%{byte:02x}" for byte in USER.encode())
    yield Urls(admin, *(admin.replace("postgres@", f"{role}@") for role in ("owner", user)))
    server.execute("DROP DATABASE garden WITH (FORCE)")


def test_a_database_of_another_program_is_refused_and_not_changed(url: str) -> None:
    execute(url, "CREATE TABLE plants (kilowatts int)")

    with pytest.raises(StoreUnavailableError, match="another program's") as caught:
        open_store(url)

    assert "\n" not in caught.value.explanation
    assert execute(url, "SELECT * FROM plants") == []
    others = "SELECT to_regclass('tokens'), to_regclass('plantstore_migrations')"
    assert execute(url, others) == [(None, None)]


def test_a_role_that_may_not_create_tables_gets_an_error_that_says_so(server: Server) -> None:
    url = server.url().replace("postgres@", "owner@")

    for options, said in {
        "": "permission denied for schema public",
        "?options=-csearch_path%3Dnowhere": "no schema has been selected",
    }.items():
        with pytest.raises(StoreUnavailableError) as caught:
            open_store(url + options)
        assert said in caught.value.explanation


def test_a_check_names_each_difference_from_the_schema(url: str, store: Store) -> None:
    store.apply_changes([PLANT])
    execute(url, "DROP INDEX plants_by_tag")
    execute(url, "ALTER TABLE plants ALTER name DROP NOT NULL")
    execute(url, "ALTER TABLE tokens DROP COLUMN digest")
    execute(url, "CREATE INDEX of_the_operator ON plants (name)")

    differ = ("plants.name", "plants_by_tag", "tokens.digest", "tokens_digest_key")
    problems = [f"{name} differs from the schema" for name in differ]
    unreadable = 'tokens cannot be read: column "digest" does not exist'
    assert store.check() == CheckReport(VERSION, 1, 0, [*problems, unreadable])


def test_a_backup_is_refused_and_the_error_names_pg_dump(store: Store) -> None:
    with pytest.raises(UsageError, match="pg_dump"):
        store.back_up("copy", lambda _done, _total: None)


def use(store: Store) -> None:
    """Do all that the service and its commands do with a store."""
    with contextlib.suppress(OperationError):
        store.add_token(TOKEN)
    assert store.find_token(TOKEN.digest) == TOKEN
    assert store.list_tokens() == [TOKEN]
    store.revoke_token("t", 1)
    store.forget_token(TOKEN.digest)
    assert store.apply_changes([PLANT]) == [Outcome.STORED]
    assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]
    assert store.apply_changes([Replacement(1, Plant("a"))]) == [Outcome.REPLACED]
    assert store.find_plants([1]) == {1: NewPlant(1, "a")}
    assert store.list_plants(Listing(words=("a",), has_total=True)).total == Count(1)
    assert store.list_plants(Listing(has_total=True)).total == Count(1)
    assert store.count_plants() == 1
    assert [len(plants) for plants in store.scan_plants()] == [1]
    assert store.check().problems == []
    assert len(store.hand_out_ids(2)) == 2
    assert store.apply_changes([Deletion(1)]) == [Outcome.DELETED]
    assert store.apply_changes([Deletion(1)]) == [Outcome.NO_SUCH_PLANT]
    store.keep_changes(1)
    begin = store.read_changes(None, 1).end
    assert store.apply_changes([PLANT, Deletion(1)]) == [Outcome.STORED, Outcome.DELETED]
    assert store.apply_changes([InSet(PLANT, "a set")]) == [Outcome.STORED]
    assert store.apply_changes([InSet(Deletion(1), "a set")]) == [Outcome.DELETED]
    store.close_set("a set")
    assert len(store.read_changes(begin, 10).items) == 2
    store.keep_changes(0)
    store.maintain()


def migrate(urls: Urls, grant_to: str | None = USER) -> None:
    open_store(urls.owner, grant_to=grant_to).close()


def test_each_granted_right_is_needed_and_the_error_names_its_table(urls: Urls) -> None:
    migrate(urls)
    rights = [(right, table) for table, rights in RIGHTS.items() for right in rights]

    for right, table in rights:
        execute(urls.owner, f"REVOKE {right} ON {table} FROM {quoted(USER)}")

        with pytest.raises(PlantStoreError) as caught:  # noqa: PT012
            store = open_store(urls.user, SchemaPolicy.REQUIRE)
            with contextlib.closing(store):
                use(store)
        assert caught.value.message.endswith(f": permission denied for table {table}{ADVICE}")

        execute(urls.owner, f"GRANT {right} ON {table} TO {quoted(USER)}")
        execute(urls.owner, "TRUNCATE plants, tokens, totals")

    with contextlib.closing(open_store(urls.user, SchemaPolicy.REQUIRE)) as store:
        use(store)


def quoted(role: str) -> str:
    return sql.Identifier(role).as_string()


def test_a_check_names_all_missing_rights_until_they_are_granted(urls: Urls) -> None:
    migrate(urls)
    with contextlib.closing(open_store(urls.user, SchemaPolicy.REQUIRE)) as store:
        execute(urls.owner, f"REVOKE ALL ON totals FROM {quoted(USER)}")
        execute(urls.owner, f"REVOKE INSERT ON plants FROM {quoted(USER)}")
        with pytest.raises(StoreUnavailableError) as checked:
            store.check_writable()
        with pytest.raises(StoreUnavailableError) as changed:
            store.apply_changes([PLANT])
        migrate(urls)

        store.check_writable()

        assert store.apply_changes([PLANT]) == [Outcome.STORED]
        execute(urls.owner, f'REVOKE USAGE ON SCHEMA "the beds" FROM {quoted(USER)}')
        with pytest.raises(StoreUnavailableError, match=f"SELECT on plants, .*{ADVICE}"):
            store.check_writable()
    missing = "INSERT on plants, SELECT on totals, INSERT on totals, UPDATE on totals"
    assert checked.value.message == (
        f"The database cannot be written: the role lacks {missing}{ADVICE}"
    )
    assert changed.value.message.endswith(f": permission denied for table plants{ADVICE}")


@pytest.mark.parametrize("role", ["nobody", "public", "", "\n", "\udcff"])
def test_an_unknown_role_is_an_error_before_anything_is_changed(urls: Urls, role: str) -> None:
    with pytest.raises(OperationError, match="There is no role "):
        migrate(urls, role)

    assert execute(urls.owner, "SELECT to_regclass('plants')") == [(None,)]


def test_a_role_that_may_not_grant_the_rights_gets_an_error(urls: Urls) -> None:
    migrate(urls)
    execute(urls.owner, f"REVOKE SELECT ON tokens FROM {quoted(USER)}")

    with pytest.raises(StoreUnavailableError, match="rights cannot be granted to pg_monitor: "):
        open_store(urls.user, grant_to="pg_monitor")


# The operator's own rules: triggers, constraints and policies of a database.


@pytest.fixture
def owner(url: str) -> Iterator[str]:
    """Return the URL of a role that owns its schema. Functions there hide those of the engine."""
    role = f"role_{uuid.uuid4().hex}"
    [[schema]] = execute(url, "SELECT current_schema()")
    execute(url, f"CREATE ROLE {role} LOGIN")
    execute(url, f"GRANT CREATE, USAGE ON SCHEMA {schema} TO {role}")
    yield url.replace("//postgres@", f"//{role}@") + ",pg_catalog"
    execute(url, f"DROP OWNED BY {role} CASCADE")
    execute(url, f"DROP ROLE {role}")


def add_function(url: str, signature: str, body: str) -> None:
    execute(url, f"CREATE FUNCTION {signature} LANGUAGE plpgsql AS $body$ BEGIN {body} END $body$")


def add_rule(url: str, body: str) -> None:
    """Create a trigger that runs this body for each inserted plant."""
    add_function(url, "rule() RETURNS trigger", f"{body} RETURN NEW;")
    execute(url, "CREATE TRIGGER rule BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION rule()")


def raising(sqlstate: str) -> str:
    return f"RAISE EXCEPTION 'that is the rule' USING ERRCODE = '{sqlstate}';"


def test_an_unrelated_warning_of_the_server_fails_no_change(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, "RAISE WARNING 'the database must be vacuumed';")

        assert store.apply_changes([PLANT]) == [Outcome.STORED]


@pytest.mark.parametrize("sqlstate", ["CR000", "XX000", "58000", "P0001", "23514", "22001"])
def test_an_error_of_the_server_is_reported_with_its_sqlstate(owner: str, sqlstate: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        add_rule(owner, raising(sqlstate))

        with pytest.raises(StoreUnavailableError) as caught:
            store.apply_changes([PLANT])

    assert caught.value.reason.endswith(f": that is the rule ({sqlstate})")
    assert isinstance(caught.value, BatchRefusedError) == (sqlstate in ("P0001", "23514", "22001"))


def test_a_batch_that_was_stored_before_an_error_is_not_reported_as_refused(owner: str) -> None:
    with contextlib.closing(open_store(owner)) as store:
        store.apply_changes([PLANT])
        body = f"IF current_query() ~ 'FOR UPDATE' THEN {raising('P0001')} END IF; RETURN true;"
        add_function(owner, "may_lock() RETURNS boolean", body)
        for statement in (
            "ALTER TABLE plants ENABLE ROW LEVEL SECURITY",
            "ALTER TABLE plants FORCE ROW LEVEL SECURITY",
            "CREATE POLICY every ON plants USING (true)",
            "CREATE POLICY may_lock ON plants AS RESTRICTIVE FOR UPDATE USING (may_lock())",
        ):
            execute(owner, statement)

        with pytest.raises(StoreUnavailableError) as caught:
            store.apply_changes([PLANT, NewPlant(2, "b")])

        assert not isinstance(caught.value, BatchRefusedError)
        assert store.find_plants([2]) == {2: NewPlant(2, "b")}
