"""Connections to PostgreSQL: their settings, their failures, and reconnection."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from plantstore.changes import Deletion, Outcome
from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.postgres.connection import connect
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

pytestmark = pytest.mark.engines("postgres")

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture(scope="module")
def server(postgres_programs: Programs) -> Iterator[Server]:
    """Yield a server that tests suspend and change; they leave it as it was."""
    with Server(postgres_programs, "own") as server:
        yield server


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", {"statement_timeout": "10s", "lock_timeout": "5s", "client_encoding": "UTF8"}),
        (
            "statement_timeout=1500 lock_timeout=700",
            {"statement_timeout": "1500ms", "lock_timeout": "700ms"},
        ),
        ("default_transaction_isolation=serializable", {"transaction_isolation": "read committed"}),
        # No setting weakens the wait for standbys.
        ("synchronous_commit=off", {"synchronous_commit": "on"}),
        ("synchronous_commit=local", {"synchronous_commit": "on"}),
        ("synchronous_commit=remote_write", {"synchronous_commit": "on"}),
        ("synchronous_commit=remote_apply", {"synchronous_commit": "remote_apply"}),
    ],
)
def test_a_connection_has_safe_settings_and_those_of_the_url(
    url: str, options: str, expected: dict[str, str]
) -> None:
    asked_for = "".join(f"%20-c{each.replace('=', '%3D')}" for each in options.split())

    with connected(url + asked_for) as connection:
        values = {
            name: connection.execute("SELECT current_setting(%s)", (name,)).fetchall()[0][0]
            for name in expected
        }
        wait_seconds = connection.wait_seconds

    assert values == expected
    assert wait_seconds == (3.5 if "statement_timeout" in options else 12)


def test_a_connection_without_a_timeout_does_not_cancel_long_statements(url: str) -> None:
    server = server_of(f"{url}%20-cstatement_timeout%3D50")
    for has_timeout in (True, False):
        with contextlib.closing(connect(server, has_timeout=has_timeout)) as connection:
            timed_out = pytest.raises(psycopg.errors.QueryCanceled)
            with timed_out if has_timeout else contextlib.nullcontext():
                connection.execute("SELECT pg_sleep(0.2)")


def test_a_server_with_fsync_off_is_refused(postgres_programs: Programs) -> None:
    with (
        Server(postgres_programs, "unsafe", fsync="off") as server,
        pytest.raises(StoreUnavailableError, match="fsync = off"),
    ):
        open_store(server.url())


def test_a_database_of_another_encoding_is_refused(server: Server) -> None:
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
    url: str, opened: Callable[..., Store]
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


def test_a_change_whose_connection_is_lost_is_in_doubt(url: str, store: Store) -> None:
    store.apply_changes([PLANT])
    waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    with contextlib.closing(in_the_way(url, "LOCK TABLE plants")), ThreadPoolExecutor(1) as pool:
        interrupted = pool.submit(store.apply_changes, [NewPlant(2, "b")])
        wait_until(lambda: is_waiting(url))

        execute(url, f"SELECT pg_terminate_backend(pid, 60000) {waiting}")

        with pytest.raises(StoreUnavailableError) as caught:
            interrupted.result(60)
    assert not isinstance(caught.value, StoreUnreachableError)
    assert "terminating connection" in caught.value.reason
    wait_until(lambda: is_back(store))
    assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]


def test_a_server_that_becomes_read_only_serves_neither_changes_nor_reads(
    server: Server, opened: Callable[..., Store]
) -> None:
    store = opened(server.url())
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

    writable = f"{server.url()}?options=-cdefault_transaction_read_only%3Doff"
    execute(writable, "ALTER SYSTEM RESET default_transaction_read_only")
    execute(writable, "SELECT pg_reload_conf()")
    wait_until(lambda: is_back(store))


def test_a_server_that_hangs_is_given_up_and_used_again_once_it_responds(
    server: Server, opened: Callable[..., Store]
) -> None:
    store = opened(server.url() + "?connect_timeout=2&options=-cstatement_timeout%3D100")
    plants = [NewPlant(id_, "a") for id_ in range(10, 2_510)]
    store.apply_changes(plants)
    scan = store.scan_plants()
    assert len(next(scan)) == 1_000
    server.signal_all(signal.SIGSTOP)

    with pytest.raises(StoreUnavailableError):
        next(scan)
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        store.apply_changes([NewPlant(2, "b")])
    with pytest.raises(StoreUnreachableError) as unreachable:
        store.apply_changes([NewPlant(2, "b")])
    server.signal_all(signal.SIGCONT)
    wait_until(lambda: is_back(store))

    assert "timeout" in unreachable.value.reason
    [outcome] = store.apply_changes([NewPlant(2, "b")])
    assert outcome in (Outcome.STORED, Outcome.ALREADY_STORED)
    assert sum(map(len, store.scan_plants())) > len(plants)


def test_closing_a_scan_does_not_wait_for_a_server_that_hangs(
    server: Server, opened: Callable[..., Store]
) -> None:
    store = opened(server.url() + "?options=-cstatement_timeout%3D1h")
    store.apply_changes([NewPlant(id_, "a") for id_ in range(10, 2_510)])
    scan = store.scan_plants()
    next(scan)
    server.signal_all(signal.SIGSTOP)
    closing = threading.Thread(target=scan.close)

    closing.start()
    closing.join(30)

    waits = closing.is_alive()
    server.signal_all(signal.SIGCONT)
    closing.join(60)
    assert not waits
