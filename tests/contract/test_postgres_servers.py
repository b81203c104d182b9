"""Several servers in a URL: each commit waits for the standby.

A warning of the server means that the wait for the standby was cancelled.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.plants import NewPlant, Plant
from plantstore.store import Store
from plantstore.tokens import TokenRecord
from support.postgres import (
    Pair,
    Programs,
    Server,
    fails,
    is_back,
    read_only,
    running_pair,
    url_of,
    wait_until,
    waits_for_the_standby,
)

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
LATER = NewPlant(2, "b")
TOKEN = TokenRecord("ann", b"digest", frozenset({"plants:read"}), 0)

Opened = Callable[..., Store]


@pytest.fixture(scope="module")
def used_pair(postgres_programs: Programs) -> Iterator[Pair]:
    with running_pair(postgres_programs) as pair:
        yield pair


@pytest.fixture
def pair(used_pair: Pair) -> Pair:
    """Return a primary and its standby. They are empty, and other tests have used them."""
    primary, _ = used_pair
    primary.wait_for_standby("second")
    primary.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return used_pair


Ask = Callable[[Store], object]
CHANGES: dict[str, Ask] = {
    "create": lambda store: store.apply_changes([LATER]),
    "create again": lambda store: store.apply_changes([PLANT]),
    "conflicts": lambda store: store.apply_changes([NewPlant(1, "c"), NewPlant(1, "d")]),
    "replace": lambda store: store.apply_changes([Replacement(1, Plant("b"))]),
    "delete": lambda store: store.apply_changes([Deletion(1)]),
    "nothing to delete": lambda store: store.apply_changes([Deletion(9)]),
    "revoke token": lambda store: store.revoke_token("ann", 5),
    "check_writable": lambda store: store.check_writable(),
}


def test_a_change_that_no_standby_has_is_not_acknowledged_even_if_it_is_sent_again(
    pair: Pair, opened: Opened
) -> None:
    """A commit whose wait is cancelled is stored on the primary only."""
    primary, standby = pair
    store = opened(primary.url())
    store.apply_changes([PLANT])
    store.add_token(TOKEN)
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    standby.stop()

    with ThreadPoolExecutor(1) as pool:
        for ask in CHANGES.values():
            for _ in range(2):
                asked = pool.submit(ask, store)
                wait_until(lambda: waits_for_the_standby(primary))
                primary.execute(cancel)
                with pytest.raises(StoreUnavailableError, match="written") as caught:
                    asked.result(60)
                assert "wait for the synchronous standby" in caught.value.reason
        asked = pool.submit(CHANGES["create"], store)
        wait_until(lambda: waits_for_the_standby(primary))
        assert not asked.done()
        standby.start()
        assert asked.result(60) == [Outcome.ALREADY_STORED]


def test_a_commit_whose_wait_ends_without_a_standby_is_not_acknowledged(
    pair: Pair, opened: Opened
) -> None:
    """Patroni removes a dead standby from synchronous_standby_names, so the waits for it end."""
    primary, standby = pair
    store = opened(url_of(primary), standbys_min=1)
    store.apply_changes([PLANT])
    store.add_token(TOKEN)
    standby.stop()

    with ThreadPoolExecutor(1) as pool:
        for ask in CHANGES.values():
            store = opened(primary.url(), standbys_min=1)
            asked = pool.submit(ask, store)
            wait_until(lambda: waits_for_the_standby(primary))
            primary.use_names("")

            with pytest.raises(StoreUnavailableError) as caught:
                asked.result(60)
            assert "wait for 0 synchronous standbys, and must for 1" in caught.value.reason
            with pytest.raises(StoreUnavailableError):
                store.apply_changes([NewPlant(3, "c")])
            primary.use_names("second")
    standby.start()
    wait_until(lambda: is_back(store))
    [outcome] = store.apply_changes([NewPlant(3, "c")])
    assert outcome in (Outcome.STORED, Outcome.ALREADY_STORED)


def test_changes_of_a_primary_that_takes_no_writes_are_read_once_the_standby_has_them(
    pair: Pair, opened: Opened
) -> None:
    primary, standby = pair
    store = opened(primary.url())
    store.keep_changes(7)
    start = store.read_changes(None, 9).end
    store.apply_changes([PLANT])

    with read_only(primary), ThreadPoolExecutor(1) as pool:
        wait_until(lambda: fails(lambda: store.find_plants([1])))
        assert len(store.read_changes(start, 9).items) == 1
        standby.stop()
        read = pool.submit(store.read_changes, start, 9)
        wait_until(lambda: waits_for_the_standby(primary))
        assert not read.done()
        standby.start()
        assert len(read.result(60).items) == 1
    wait_until(lambda: is_back(store))


def test_without_enough_standbys_a_store_opens_and_reads_and_refuses_changes(
    pair: Pair, postgres_programs: Programs, opened: Opened
) -> None:
    """A server without WAL senders has no standbys, whatever their names are."""
    settings = {"max_wal_senders": "0", "synchronous_standby_names": "*", "wal_level": "minimal"}
    with Server(postgres_programs, "alone", **settings) as alone:
        for server, standbys_min in ((pair[0], 2), (alone, 1)):
            opened(server.url()).add_token(TOKEN)

            store = opened(server.url(), standbys_min=standbys_min)

            assert store.find_token(TOKEN.digest) == TOKEN
            with pytest.raises(StoreUnavailableError, match="too few synchronous standbys"):
                store.apply_changes([PLANT])
            with pytest.raises(StoreUnavailableError, match="too few synchronous standbys"):
                store.check_writable()


def sessions(server: Server) -> set[object]:
    """Return the processes that serve the store."""
    ours = "SELECT pid FROM pg_stat_activity WHERE application_name = 'plantstore'"
    return {pid for (pid,) in server.execute(ours)}


AT_THE_STATEMENT = "ALTER TABLE plants ADD CHECK (name <> 'refused')"
AT_THE_COMMIT = """
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN IF NEW.name = 'refused' THEN RAISE EXCEPTION 'refused'; END IF; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON plants DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION refuse()
"""


@pytest.mark.parametrize("rule", [AT_THE_STATEMENT, AT_THE_COMMIT], ids=["statement", "commit"])
def test_a_refused_batch_does_not_close_the_connection(
    pair: Pair, opened: Opened, rule: str
) -> None:
    primary, _ = pair
    store = opened(url_of(primary), standbys_min=1)
    store.apply_changes([PLANT])
    primary.execute(rule)
    before = sessions(primary)

    for id_ in range(2, 12):
        with pytest.raises(BatchRefusedError):
            store.apply_changes([NewPlant(100, "b"), NewPlant(101, "refused")])
        assert store.apply_changes([NewPlant(id_, "a")]) == [Outcome.STORED]

    assert sessions(primary) == before
    assert store.find_plants([100, 101]) == {}


def test_a_connection_that_cannot_be_opened_closes_none_of_the_others(
    pair: Pair, opened: Opened
) -> None:
    primary, _ = pair
    primary.execute("CREATE ROLE ann LOGIN SUPERUSER")
    store = opened(url_of(primary).replace("postgres@", "ann@"))
    store.apply_changes([PLANT])
    store.find_plants([1])
    before = sessions(primary)
    primary.execute("ALTER ROLE ann NOLOGIN")

    with pytest.raises(StoreUnavailableError):
        store.count_plants()

    assert store.apply_changes([LATER]) == [Outcome.STORED]
    assert store.find_plants([1]) == {1: PLANT}
    assert sessions(primary) == before


def test_a_standby_alone_is_not_read(pair: Pair, opened: Opened) -> None:
    """Its plants may be older than what was acknowledged."""
    _, standby = pair

    with pytest.raises(StoreUnavailableError, match=r"^The database is read-only$") as caught:
        opened(standby.url())

    assert "hot standby" in caught.value.reason
