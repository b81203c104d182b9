"""Connections to PostgreSQL: their settings, their failures, and reconnection."""

import contextlib
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from plantstore.changes import Deletion, Outcome
from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.postgres.connect import connect
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.link import Link
from plantstore.storage.postgres.servers import Servers
from plantstore.storage.postgres.url import parse_url
from plantstore.store import Store
from support.postgres import (
    Programs,
    Server,
    connected,
    execute,
    fails,
    in_the_way,
    is_back,
    is_waiting,
    server_of,
    wait_until,
)

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


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
def test_no_setting_weakens_synchronous_commit_below_on(
    url: str, asked_for: str, used: str
) -> None:
    with connected(f"{url}%20-csynchronous_commit%3D{asked_for}") as connection:
        assert setting(connection, "synchronous_commit") == used


def test_every_wait_has_a_timeout_that_the_url_may_change(url: str) -> None:
    with connected(url) as connection:
        assert setting(connection, "statement_timeout") == "10s"
        assert setting(connection, "lock_timeout") == "5s"
        assert connection.wait_seconds == 12
    with connected(f"{url}%20-cstatement_timeout%3D1500%20-clock_timeout%3D700") as connection:
        assert setting(connection, "statement_timeout") == "1500ms"
        assert setting(connection, "lock_timeout") == "700ms"
        assert connection.wait_seconds == 3.5


def test_a_connection_without_a_timeout_does_not_cancel_long_statements(url: str) -> None:
    server = server_of(f"{url}%20-cstatement_timeout%3D50")
    for has_timeout in (True, False):
        with contextlib.closing(connect(server, has_timeout=has_timeout)) as connection:
            timed_out = pytest.raises(psycopg.errors.QueryCanceled)
            with timed_out if has_timeout else contextlib.nullcontext():
                connection.execute("SELECT pg_sleep(0.2)")


def test_a_connection_uses_read_committed_and_utf_8(url: str) -> None:
    with connected(f"{url}%20-cdefault_transaction_isolation%3Dserializable") as connection:
        assert setting(connection, "transaction_isolation") == "read committed"
        assert setting(connection, "client_encoding") == "UTF8"


def test_a_server_with_fsync_off_is_refused(postgres_programs: Programs) -> None:
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


def test_an_unreachable_database_is_reported_in_one_line_without_secrets() -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        open_store("postgresql://ann:secret@127.0.0.1:1,127.0.0.1:2/garden")

    assert caught.value.message == "The database cannot be reached"
    assert "Connection refused" in caught.value.explanation
    assert "\n" not in caught.value.explanation
    assert "secret" not in caught.value.explanation


def test_a_change_that_waits_too_long_for_a_lock_fails_and_the_next_succeeds(
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


def test_an_unrelated_warning_of_the_server_fails_no_change(url: str, store: Store) -> None:
    execute(
        url,
        """
        CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE WARNING 'the database must be vacuumed'; RETURN NEW; END $$
        """,
    )
    execute(url, "CREATE TRIGGER warn BEFORE INSERT ON plants EXECUTE FUNCTION warn()")

    assert store.apply_changes([PLANT]) == [Outcome.STORED]


def test_a_missing_table_is_store_unavailable_and_not_an_internal_error(
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


def test_a_restarted_server_is_used_again_and_an_interrupted_change_is_in_doubt(
    postgres_programs: Programs,
) -> None:
    with (
        Server(postgres_programs, "restarting") as server,
        contextlib.closing(open_store(server.url())) as store,
    ):
        store.apply_changes([PLANT])
        store.probe()
        with (
            contextlib.closing(in_the_way(server.url(), "LOCK TABLE plants")),
            ThreadPoolExecutor(1) as thread,
        ):
            interrupted = thread.submit(store.apply_changes, [NewPlant(2, "b")])
            wait_until(lambda: is_waiting(server.url()))
            waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            server.execute(f"SELECT pg_terminate_backend(pid, 60000) {waiting}")
            cut_off = interrupted.exception()
        server.stop()

        def is_known_to_be_unreachable() -> bool:
            with pytest.raises(StoreUnavailableError) as caught:
                store.apply_changes([NewPlant(2, "b")])
            return isinstance(caught.value, StoreUnreachableError)

        wait_until(is_known_to_be_unreachable)
        with pytest.raises(StoreUnavailableError):
            store.find_plants([1])
        with pytest.raises(StoreUnavailableError):
            store.probe()
        server.start()
        wait_until(lambda: is_back(store))

        assert isinstance(cut_off, StoreUnavailableError)
        assert not isinstance(cut_off, StoreUnreachableError)
        assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]
        assert store.find_plants([1]) == {1: PLANT}


def pid(link: Link) -> int:
    with link.using("It failed") as connection:
        return connection.info.backend_pid


def test_an_idle_connection_is_kept_and_a_lost_one_is_replaced(
    url: str,
) -> None:
    now = 0.0
    servers = Servers(parse_url(url))
    link = Link(servers, monotonic=lambda: now)
    first = pid(link)

    now += 100
    assert pid(link) == first
    execute(url, f"SELECT pg_terminate_backend({first}, 60000)")
    now += 100
    assert pid(link) != first
    link.close()
    servers.close()


def test_an_error_of_a_statement_does_not_close_the_connection(url: str) -> None:
    open_store(url).close()
    servers = Servers(parse_url(f"{url}%20-clock_timeout%3D50"))
    link = Link(servers)
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
    servers.close()


def test_a_server_that_becomes_read_only_serves_neither_changes_nor_reads(
    postgres_programs: Programs,
) -> None:
    with (
        Server(postgres_programs, "read_only") as server,
        contextlib.closing(open_store(server.url())) as store,
    ):
        store.apply_changes([PLANT])
        assert store.find_plants([1]) == {1: PLANT}
        server.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        server.execute("SELECT pg_reload_conf()")

        # Another server may be the primary now, so reads from this one may be stale.
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


def test_a_server_that_hangs_is_given_up_and_used_again_once_it_responds(
    postgres_programs: Programs,
) -> None:
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
