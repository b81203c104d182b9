"""Commits wait for the synchronous standby. A warning means that the wait was cancelled."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from plantstore.changes import Deletion, Replacement
from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant, Plant
from plantstore.store import Store
from plantstore.tokens import TokenRecord
from support.postgres import Programs, Server, is_back, wait_until

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


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
def test_a_change_that_no_standby_has_is_not_acknowledged_even_if_it_is_sent_again(
    pair: tuple[Server, Server], opened: Callable[[str], Store], what: str
) -> None:
    """A commit whose wait is cancelled is stored on the primary only."""
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


def test_a_commit_that_times_out_leaves_no_waiting_session_and_no_lock(
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
