"""Connections to PostgreSQL: their settings, their failures, and poolers between."""

import contextlib
import signal
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from plantstore.api.exports import READING_THREADS
from plantstore.changes import Deletion, Outcome
from plantstore.errors import ErrorCode, FeedError, NothingDoneError, StoreUnavailableError
from plantstore.listings import Listing
from plantstore.observe import Event, ServerChanged
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.postgres.postgres_store import PostgresStore
from plantstore.storage.postgres.primary import FRESH_SECONDS, RETRY_SECONDS, Primary
from plantstore.storage.postgres.session import Connection, translate_errors
from plantstore.store import POSTGRES_CONNECTIONS_MAX, READS, Store
from support.fronts import free_port, program, running_program
from support.postgres import (
    SHORT_TIMEOUT,
    Programs,
    Server,
    connected,
    execute,
    fails,
    in_the_way,
    is_back,
    is_waiting,
    read_only,
    wait_until,
)
from support.stores import READ_METHODS

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
    for has_timeout in (True, False):
        limited = f"{url}%20-cstatement_timeout%3D100"
        with connected(limited, has_timeout=has_timeout) as connection:
            timed_out = pytest.raises(psycopg.errors.QueryCanceled)
            with timed_out if has_timeout else contextlib.nullcontext():
                connection.execute("SELECT pg_sleep(0.2)")


def test_a_server_with_fsync_off_is_refused(postgres_programs: Programs) -> None:
    with (
        Server(postgres_programs, "unsafe", fsync="off") as server,
        pytest.raises(StoreUnavailableError, match="fsync = off"),
    ):
        open_store(server.url())


def test_a_server_older_than_postgresql_14_is_refused() -> None:
    """The server of this test lets everyone in, says its version, and that it is ready."""
    version = b"server_version\x0013.9\x00"
    start = struct.pack("!cii", b"R", 8, 0) + struct.pack("!ci", b"S", 4 + len(version)) + version
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:

        def serve() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(start + struct.pack("!cic", b"Z", 5, b"I"))

        served = pool.submit(serve)
        url = f"postgresql://a@127.0.0.1:{listener.getsockname()[1]}/b?sslmode=disable"
        with pytest.raises(StoreUnavailableError, match=r"PostgreSQL 14 or newer.* has 13\.9"):
            open_store(f"{url}&target_session_attrs=any")
        served.result(60)


def test_a_database_of_another_encoding_is_refused(server: Server) -> None:
    server.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")

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
    assert not isinstance(caught.value, NothingDoneError)
    assert "terminating connection" in caught.value.reason
    wait_until(lambda: is_back(store))
    assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]


def test_an_error_of_libpq_without_an_sqlstate_is_a_fault_of_the_server() -> None:
    with pytest.raises(StoreUnavailableError) as caught, translate_errors("It failed"):
        raise psycopg.DatabaseError("no connection to the server")

    assert caught.value.explanation == "It failed: no connection to the server"


def test_a_database_that_becomes_read_only_is_read_and_says_why_it_takes_no_changes(
    server: Server, opened: Callable[..., Store]
) -> None:
    store = opened(server.url())
    store.keep_changes(7)
    store.apply_changes([PLANT])
    assert store.find_plants([1]) == {1: PLANT}
    with read_only(server):
        # Another server may be the primary now, so the results of the connections are discarded
        # once.
        wait_until(lambda: fails(lambda: store.find_plants([1])))
        wait_until(lambda: fails(lambda: store.apply_changes([PLANT])))
        with pytest.raises(NothingDoneError, match=r"^The database is read-only$") as caught:
            store.apply_changes([PLANT])
        found = [store.find_plants([1]), opened(server.url()).find_plants([1])]

        starting = opened(server.url())
        starting.keep_changes(7)  # as a service does when it starts
        with pytest.raises(StoreUnavailableError):
            starting.keep_changes(8)

        assert "session is read-only" in caught.value.reason
        assert store.check().problems == []
        assert found == [{1: PLANT}] * 2
        wait_until(lambda: fails(store.check_writable))
    wait_until(lambda: is_back(store))


def test_a_server_that_hangs_is_given_up_and_used_again_once_it_responds(
    server: Server, opened: Callable[..., Store]
) -> None:
    plants = [NewPlant(id_, "a") for id_ in range(10, 2_510)]
    opened(server.url()).apply_changes(plants)
    limited = f"{server.url()}?connect_timeout=2&{SHORT_TIMEOUT}"
    store = PostgresStore(limited, "garden", grace_seconds=0.5)
    store.apply_changes([NewPlant(1, "a")])
    scan = store.scan_plants()
    assert len(next(scan)) == 1_000
    server.signal_all(signal.SIGSTOP)

    with pytest.raises(StoreUnavailableError):
        next(scan)
    with pytest.raises(StoreUnavailableError, match="cannot be written"):
        store.apply_changes([NewPlant(2, "b")])
    with pytest.raises(NothingDoneError) as unreachable:
        store.apply_changes([NewPlant(2, "b")])
    server.signal_all(signal.SIGCONT)
    wait_until(lambda: is_back(store))

    assert "timeout" in unreachable.value.reason
    [outcome] = store.apply_changes([NewPlant(2, "b")])
    assert outcome in (Outcome.STORED, Outcome.ALREADY_STORED)
    assert sum(map(len, store.scan_plants())) > len(plants)
    store.close()


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


class Clock:
    """Primary connections with a clock that the test sets."""

    def __init__(self, url: str) -> None:
        self.now = 1_000.0
        self.told: list[Event] = []
        self.primary = Primary(url, monotonic=lambda: self.now, observe=self.told.append)

    def use(self, **kind: bool) -> Connection:
        with self.primary.using("It failed", **kind) as connection:
            connection.execute("SELECT 1")
        self.now += 0.001
        return connection


@pytest.fixture
def clock(server: Server) -> Iterator[Clock]:
    """Yield a URL with two names of one server."""
    hosts = f"127.0.0.1:{server.port},localhost:{server.port}"
    clock = Clock(f"postgresql://postgres@{hosts}/postgres")
    with contextlib.closing(clock.primary):
        yield clock


def test_after_a_failed_attempt_to_connect_uses_fail_at_once_until_a_pause_is_over(
    server: Server, clock: Clock
) -> None:
    found = ServerChanged(clock.use().server, 0)
    server.stop()
    clock.now += 2 * FRESH_SECONDS
    with pytest.raises(NothingDoneError):
        clock.use()
    server.start()

    clock.now += 0.9 * RETRY_SECONDS
    with pytest.raises(NothingDoneError) as caught:
        clock.use()
    clock.now += 0.1 * RETRY_SECONDS
    clock.use()

    assert caught.value.explanation.count("Connection refused") == 2
    clock.use(for_writes=True)
    assert clock.told == [found, ServerChanged(None, 0), found]


def test_an_idle_connection_is_checked_before_its_use_and_replaced_if_it_is_lost(
    server: Server, clock: Clock
) -> None:
    first = clock.use()
    clock.now += 2 * FRESH_SECONDS
    assert clock.use() is first
    server.execute(f"SELECT pg_terminate_backend({first.pgconn.backend_pid}, 60000)")

    clock.now += 2 * FRESH_SECONDS

    assert clock.use() is not first
    assert first.closed


def test_a_server_that_failed_is_tried_last_and_all_connections_to_it_are_replaced(
    server: Server, clock: Clock
) -> None:
    written = clock.use(for_writes=True)
    with (
        clock.primary.using("It failed") as kept,
        pytest.raises(StoreUnavailableError) as caught,
        clock.primary.using("It failed") as broken,
    ):
        broken.execute("SELECT pg_terminate_backend(pg_backend_pid(), 60000)")
    assert [each.server for each in (written, kept, broken)] == [f"127.0.0.1:{server.port}"] * 3
    assert caught.value.explanation.startswith(f"It failed: {broken.server}: terminating")

    replaced = [clock.use(for_writes=True), clock.use()]

    assert [each.server for each in replaced] == [f"localhost:{server.port}"] * 2
    assert written.closed
    assert kept.closed
    assert clock.use() is replaced[1]


def test_an_error_of_a_server_that_takes_no_writes_any_more_is_not_trusted(
    server: Server, clock: Clock
) -> None:
    used = clock.use()

    def may_write() -> bool:
        with clock.primary.using("It failed") as connection:
            if connection.execute("SHOW transaction_read_only").fetchall() == [("on",)]:
                raise FeedError(ErrorCode.CHANGES_GONE, "Not all changes are kept")
        return True

    with read_only(server), pytest.raises(StoreUnavailableError, match="It failed") as caught:
        wait_until(lambda: not may_write())

    assert used.closed
    assert "takes no writes any more" in caught.value.reason


def test_a_closed_store_opens_no_connection(clock: Clock) -> None:
    with clock.primary.using("It failed") as used:
        idle = clock.use()
        clock.primary.close()

    assert used.closed
    assert idle.closed
    with pytest.raises(NothingDoneError, match="closed"):
        clock.use()


def test_a_process_has_a_connection_for_each_use_that_may_run_at_once(
    server: Server, opened: Callable[..., Store]
) -> None:
    store = opened(server.url() + "?options=-cstatement_timeout%3D2min%20-clock_timeout%3D2min")
    store.keep_changes(7)
    reads: dict[str, Callable[[Store], object]] = {
        "search": lambda store: store.list_plants(Listing(words=("a",))),
        **READ_METHODS,
    }
    calls = [reads[kind] for kind, each in READS.items() for _ in range(each.threads)]
    calls += [lambda store: store.apply_changes([PLANT])]
    calls += 2 * [reads["find_token"], lambda store: store.hand_out_ids(1)]  # with a lock for each
    calls += [reads["read_changes"]]  # of `Tail`
    calls += [lambda store: store.check_readable()]  # of `/readyz`
    calls += READING_THREADS * [lambda store: store.list_plants(Listing(tag=""))]
    connections_max = POSTGRES_CONNECTIONS_MAX + READING_THREADS
    every_table = "LOCK plants, tokens, changes, feed IN ACCESS EXCLUSIVE MODE"

    def connections() -> list[int]:
        """Return how many connections a store has, and how many of them wait for a lock."""
        [counts] = server.execute(
            "SELECT count(*), count(*) FILTER (WHERE wait_event_type = 'Lock')"
            " FROM pg_stat_activity WHERE application_name = 'plantstore'"
        )
        return list(counts)

    with (
        ThreadPoolExecutor(len(calls)) as pool,
        store.watch_changes(),
        contextlib.closing(in_the_way(server.url(), every_table)),
    ):
        made = [pool.submit(call, store) for call in calls]
        wait_until(lambda: connections() == [connections_max, connections_max - 1])

    assert not any(each.exception(60) for each in made)
    assert connections() == [connections_max - 1, 0]  # nothing waits for changes any more


@contextlib.contextmanager
def pooler(programs: Programs, url: str, mode: str, ignored: str = "options") -> Iterator[str]:
    """Run PgBouncer in front of a database; yield the URL through it."""
    server = psycopg.conninfo.conninfo_to_dict(url)
    name = f"pooled_{uuid.uuid4().hex}"
    execute(url, f"CREATE DATABASE {name}")
    port = free_port()
    users = programs.folder / f"{port}.users"
    users.write_text('"postgres" ""\n')
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": users,
        "pool_mode": mode,
        "ignore_startup_parameters": ignored,
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    target = f"host={server['host']} port={server['port']}"
    configuration = programs.folder / f"{port}.ini"
    configuration.write_text("\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines]))
    command = (program("pgbouncer"), "-q", configuration)
    try:
        with running_program(programs.folder, port, *command, **programs.as_user):
            yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
    finally:
        execute(url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    ("mode", "ignored", "said"),
    [
        ("transaction", "options", "set its pool_mode to session"),
        ("transaction", "extra_float_digits", "unsupported startup parameter"),
    ],
)
def test_a_pooler_that_does_not_keep_sessions_with_their_options_is_refused(
    postgres_programs: Programs, postgres_url: str, mode: str, ignored: str, said: str
) -> None:
    with (
        pooler(postgres_programs, postgres_url, mode, ignored) as through,
        pytest.raises(StoreUnavailableError) as caught,
    ):
        open_store(through)

    assert said in caught.value.explanation


def test_plants_are_stored_through_a_pooler_in_session_mode(
    postgres_programs: Programs, postgres_url: str
) -> None:
    with (
        pooler(postgres_programs, postgres_url, "session") as through,
        contextlib.closing(open_store(through)) as store,
    ):
        assert store.apply_changes([NewPlant(1, "a")]) == [Outcome.STORED]
        store.check_writable()
