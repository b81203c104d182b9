"""Several servers in a URL: the store finds the primary, and follows it to a new server."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from plantstore.changes import Outcome
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.listings import Listing
from plantstore.observe import Event, ServerChanged
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.postgres.servers import TRUST_SECONDS, Servers
from plantstore.storage.postgres.url import parse_url
from plantstore.store import Store
from plantstore.tokens import TokenRecord
from support.postgres import Programs, Server, fails, is_back, wait_until

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
TOKEN = TokenRecord("ann", b"digest", frozenset({"plants:read"}), 0)


@pytest.fixture
def pair(postgres_programs: Programs) -> Iterator[tuple[Server, Server]]:
    """Yield a primary and its synchronous standby."""
    with (
        Server(postgres_programs, "first") as primary,
        primary.standby("second") as standby,
    ):
        primary.wait_for_standby("second")
        yield primary, standby


def url_of(*servers: Server, parameters: str = "") -> str:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/postgres{parameters}"


def promote(standby: Server) -> None:
    standby.execute("SELECT pg_promote()")


def reads(store: Store) -> list[object]:
    """Read in each way that a service reads. Each uses its own connection."""
    return [
        store.find_plants([2]).get(2),
        store.list_plants(Listing(after=1, limit=1)).plants[:1],
        store.find_token(TOKEN.digest),
    ]


@pytest.mark.parametrize("is_primary_first", [True, False])
def test_changes_and_reads_leave_an_old_primary_that_is_still_running(
    pair: tuple[Server, Server], *, is_primary_first: bool
) -> None:
    primary, standby = pair
    servers = pair if is_primary_first else pair[::-1]
    with contextlib.closing(open_store(url_of(*servers))) as store:
        store.apply_changes([PLANT])
        store.add_token(TOKEN)
        assert reads(store) == [None, [], TOKEN]

        promote(standby)
        plant = NewPlant(2, "b")
        wait_until(lambda: not fails(lambda: store.apply_changes([plant])))

        assert reads(store) == [plant, [plant], TOKEN]
        assert store.revoke_token("ann", 7) == store.find_token(TOKEN.digest)
        assert primary.execute("SELECT id FROM plants WHERE id > 2") == []
        assert standby.execute("SELECT id FROM plants ORDER BY id") == [(1,), (2,)]


def test_a_store_that_only_reads_sees_what_another_changed_on_the_new_primary(
    pair: tuple[Server, Server],
) -> None:
    _, standby = pair
    with (
        contextlib.closing(open_store(url_of(*pair))) as writing,
        contextlib.closing(open_store(url_of(*pair))) as reading,
    ):
        writing.apply_changes([PLANT])
        writing.add_token(TOKEN)
        assert reads(reading) == [None, [], TOKEN]

        promote(standby)
        plant = NewPlant(2, "b")
        wait_until(lambda: not fails(lambda: writing.apply_changes([plant])))

        assert reads(reading) == [plant, [plant], TOKEN]


def test_a_hanging_primary_is_left_once_a_standby_is_promoted(
    pair: tuple[Server, Server],
) -> None:
    primary, standby = pair
    # The timeout is so long that only the newer timeline ends the wait for the hanging server.
    parameters = "?options=-cstatement_timeout%3D10min"
    with contextlib.closing(open_store(url_of(*pair, parameters=parameters))) as store:
        store.apply_changes([PLANT])
        store.add_token(TOKEN)
        reads(store)
        primary.signal_all(signal.SIGSTOP)

        promote(standby)
        plant = NewPlant(2, "b")
        wait_until(lambda: not fails(lambda: store.apply_changes([plant])))
        primary.signal_all(signal.SIGCONT)

        assert reads(store) == [plant, [plant], TOKEN]


def test_an_outdated_primary_is_not_used_even_if_no_other_server_is_up(
    pair: tuple[Server, Server],
) -> None:
    _, standby = pair
    with contextlib.closing(open_store(url_of(*pair))) as store:
        store.apply_changes([PLANT])
        promote(standby)
        wait_until(lambda: not fails(lambda: store.apply_changes([NewPlant(2, "b")])))
        standby.stop()

        with pytest.raises(StoreUnavailableError):
            store.find_plants([1])
        with pytest.raises(StoreUnavailableError) as caught:
            store.find_plants([1])

        assert "is no primary now" in caught.value.reason
        assert f"127.0.0.1:{standby.port}: " in caught.value.reason
        standby.start()
        wait_until(lambda: is_back(store))
        assert store.find_plants([2]) == {2: NewPlant(2, "b")}


def test_each_change_of_the_primary_is_reported(
    pair: tuple[Server, Server],
) -> None:
    primary, standby = pair
    told: list[Event] = []
    with contextlib.closing(open_store(url_of(*pair), observe=told.append)) as store:
        first = ServerChanged(f"127.0.0.1:{primary.port}", 1, 1)
        wait_until(lambda: first in told)
        promote(standby)
        second = ServerChanged(f"127.0.0.1:{standby.port}", 2, 0)
        wait_until(lambda: told[-1] == second)
        assert store.apply_changes([PLANT]) == [Outcome.STORED]

    assert told[0] == first
    assert isinstance(told[-1], ServerChanged)
    assert told[-1].server == second.server


def test_the_first_change_on_a_newer_timeline_waits_until_no_store_reads_the_old_one(
    pair: tuple[Server, Server],
) -> None:
    """Rule 2 of `Servers`."""
    _, standby = pair
    now = 0.0
    slept: list[float] = []
    told: list[Event] = []
    servers = Servers(
        parse_url(url_of(*pair)), observe=told.append, monotonic=lambda: now, sleep=slept.append
    )
    with contextlib.closing(servers):
        servers.connect(for_writes=True).close()
        assert slept == [], "the first timeline is not a newer one"

        promote(standby)
        promoted = ServerChanged(f"127.0.0.1:{standby.port}", 2, 0)
        wait_until(lambda: promoted in told)
        servers.connect().close()
        assert slept == [], "reads do not wait"
        servers.connect(for_writes=True).close()
        assert slept == [TRUST_SECONDS]
        now += TRUST_SECONDS
        servers.connect(for_writes=True).close()
        assert slept == [TRUST_SECONDS]


def use_names(server: Server, names: str) -> None:
    server.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
    server.execute("SELECT pg_reload_conf()")


Ask = Callable[[Store], object]
CHANGES: dict[str, Ask] = {
    "create": lambda store: store.apply_changes([NewPlant(2, "b")]),
    "create again": lambda store: store.apply_changes([PLANT]),
    "replace": lambda store: store.apply_changes([NewPlant(1, "c"), NewPlant(1, "d")]),
    "probe": lambda store: store.probe(),
    "add token": lambda store: store.add_token(TOKEN),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_commit_whose_wait_ends_without_a_standby_is_not_acknowledged(
    pair: tuple[Server, Server], change: str
) -> None:
    """Patroni removes a dead standby from synchronous_standby_names, so the waits for it end."""
    primary, standby = pair
    with contextlib.closing(open_store(url_of(primary), standbys_min=1)) as store:
        store.apply_changes([PLANT])
        store.probe()
        standby.stop()

        with pytest.raises(StoreUnavailableError) as caught:
            let_go_while(primary, lambda: CHANGES[change](store))
        assert "wait for 0 synchronous standbys, and must for 1" in caught.value.reason
        with pytest.raises(StoreUnavailableError):
            store.apply_changes([NewPlant(3, "c")])

        standby.start()
        use_names(primary, "second")
        wait_until(lambda: is_back(store))
        [outcome] = store.apply_changes([NewPlant(3, "c")])
        assert outcome in (Outcome.STORED, Outcome.ALREADY_STORED)


def let_go_while(primary: Server, ask: Callable[[], object]) -> object:
    """Start a change, and remove the standby from the names once the change waits for it."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask)
        wait_until(lambda: primary.execute(waiting) != [(0,)])
        use_names(primary, "")
        return asked.result(60)


def sessions(server: Server) -> set[object]:
    """Return the processes that serve the store."""
    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'plantstore'"
    return {pid for (pid,) in server.execute(ours)}


def test_a_refused_batch_does_not_close_the_connection(pair: tuple[Server, Server]) -> None:
    primary, _ = pair
    with contextlib.closing(open_store(url_of(primary), standbys_min=1)) as store:
        store.apply_changes([PLANT])
        primary.execute("ALTER TABLE plants ADD CHECK (name <> 'refused')")
        before = sessions(primary)

        for _ in range(3):
            with pytest.raises(BatchRefusedError):
                store.apply_changes([NewPlant(2, "b"), NewPlant(3, "refused")])
            assert store.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]

        assert sessions(primary) == before
        assert store.find_plants([2]) == {}


def test_the_connection_stays_usable_after_a_failed_commit(pair: tuple[Server, Server]) -> None:
    primary, _ = pair
    with contextlib.closing(open_store(url_of(primary), standbys_min=1)) as store:
        store.apply_changes([PLANT])
        primary.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF NEW.name = 'refused' THEN RAISE EXCEPTION 'refused'; END IF;"
            " RETURN NULL; END $$"
        )
        primary.execute(
            "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON plants DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        )

        for id_ in range(2, 20):
            with pytest.raises(BatchRefusedError):
                store.apply_changes([NewPlant(100, "refused")])
            assert store.apply_changes([NewPlant(id_, "a")]) == [Outcome.STORED]


def test_a_connection_that_cannot_be_opened_closes_none_of_the_others(
    pair: tuple[Server, Server],
) -> None:
    primary, _ = pair
    primary.execute("CREATE ROLE ann LOGIN SUPERUSER")
    url = url_of(primary).replace("postgres@", "ann@")
    with contextlib.closing(open_store(url)) as store:
        store.apply_changes([PLANT])
        store.find_plants([1])
        before = sessions(primary)
        primary.execute("ALTER ROLE ann NOLOGIN")

        with pytest.raises(StoreUnavailableError):
            store.count_plants()

        assert store.apply_changes([NewPlant(2, "b")]) == [Outcome.STORED]
        assert store.find_plants([1]) == {1: PLANT}
        assert sessions(primary) == before


def test_a_server_of_another_cluster_is_not_used(
    pair: tuple[Server, Server], postgres_programs: Programs
) -> None:
    primary, _ = pair
    with Server(postgres_programs, "foreign") as foreign:
        open_store(foreign.url()).close()
        with contextlib.closing(open_store(url_of(primary, foreign))) as store:
            store.apply_changes([PLANT])
            primary.stop()

            for _ in range(2):
                with pytest.raises(StoreUnavailableError):
                    store.find_plants([1])
            primary.start()
            wait_until(lambda: is_back(store))
            assert store.find_plants([1]) == {1: PLANT}


def test_a_failing_observer_does_not_stop_a_failover(pair: tuple[Server, Server]) -> None:
    primary, standby = pair

    def fail(_event: Event) -> None:
        raise ZeroDivisionError

    with contextlib.closing(open_store(url_of(*pair), observe=fail)) as store:
        store.apply_changes([PLANT])
        promote(standby)
        wait_until(lambda: not fails(lambda: store.apply_changes([NewPlant(2, "b")])))
    assert primary.execute("SELECT id FROM plants WHERE id = 2") == []


def test_a_server_without_wal_senders_has_no_standbys(postgres_programs: Programs) -> None:
    settings = {"max_wal_senders": "0", "synchronous_standby_names": "*", "wal_level": "minimal"}
    with (
        Server(postgres_programs, "alone", **settings) as server,
        contextlib.closing(open_store(server.url(), standbys_min=1)) as store,
        pytest.raises(StoreUnavailableError, match="too few synchronous standbys"),
    ):
        store.apply_changes([PLANT])


def test_without_enough_standbys_a_store_opens_and_reads_and_refuses_changes(
    pair: tuple[Server, Server],
) -> None:
    primary, _ = pair
    with contextlib.closing(open_store(url_of(primary))) as store:
        store.apply_changes([PLANT])
        store.add_token(TOKEN)
    with contextlib.closing(open_store(url_of(primary), standbys_min=2)) as store:
        assert store.find_plants([1]) == {1: PLANT}
        assert store.find_token(TOKEN.digest) == TOKEN
        for change in (lambda: store.apply_changes([PLANT]), store.probe):
            with pytest.raises(StoreUnavailableError, match="too few synchronous standbys"):
                change()
