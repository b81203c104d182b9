"""Several servers in a URL: the store follows the primary, and no follower is told what is lost."""

import signal
from collections.abc import Callable, Iterator

import pytest

from plantstore.errors import ErrorCode, FeedError, StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.store import Store
from support.following import Copy
from support.postgres import (
    SHORT_TIMEOUT,
    Pair,
    Programs,
    fails,
    is_back,
    running_pair,
    url_of,
    wait_until,
    waits_for_the_standby,
)

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
LATER = NewPlant(2, "b")

Opened = Callable[..., Store]


@pytest.fixture
def pair(postgres_programs: Programs) -> Iterator[Pair]:
    """Yield a primary and its standby, for a test that promotes the standby."""
    with running_pair(postgres_programs) as new:
        yield new


def change_on_the_new_primary(store: Store) -> None:
    wait_until(lambda: not fails(lambda: store.apply_changes([LATER])))


@pytest.mark.parametrize("standbys_min", [0, 1])
def test_no_follower_is_told_a_change_that_no_standby_has(
    pair: Pair, opened: Opened, standbys_min: int
) -> None:
    """A failover would lose it, and its client was told that it may not be made."""
    primary, standby = pair
    url = primary.url() + f"?{SHORT_TIMEOUT}"
    store = opened(url, standbys_min=standbys_min)
    store.keep_changes(7)
    store.apply_changes([PLANT])
    [told] = store.read_changes(0, 9).items
    standby.stop()

    for _ in range(2 - standbys_min):  # the first one leaves no lock
        with pytest.raises(StoreUnavailableError, match="cannot be written"):
            store.apply_changes([LATER])
    wait_until(lambda: not waits_for_the_standby(primary))
    assert fails(store.check_writable)
    if standbys_min:
        primary.use_names("")

    assert store.find_plants([2]) == {2: LATER}, "the change is visible"
    assert fails(lambda: store.read_changes(told.number, 9))
    standby.start()
    primary.use_names("second")
    wait_until(lambda: is_back(store) and not fails(lambda: store.read_changes(told.number, 9)))
    assert [change.id for change in store.read_changes(told.number, 9).items] == [2]


def test_a_follower_continues_after_a_failover_and_notices_one_that_lost_changes(
    pair: Pair, opened: Opened
) -> None:
    primary, standby = pair
    store = opened(url_of(primary, standby))
    store.keep_changes(7)
    store.apply_changes([PLANT])
    copy = Copy().follow(store)
    standby.stop()
    primary.use_names("")
    store.apply_changes([NewPlant(3, "lost")])
    lost = Copy({1: PLANT}, copy.number).follow(store)
    primary.kill()
    standby.start()

    standby.promote()
    change_on_the_new_primary(store)

    wait_until(lambda: not fails(lambda: store.find_plants([2])))
    assert copy.follow(store).plants == {1: PLANT, 2: LATER}
    with pytest.raises(FeedError) as gone:
        store.read_changes(lost.number, 9)
    assert gone.value.code is ErrorCode.CHANGES_GONE


def test_whoever_waits_for_changes_leaves_a_primary_that_another_connection_has_lost(
    pair: Pair, opened: Opened
) -> None:
    primary, standby = pair
    store = opened(url_of(primary, standby, parameters=f"?{SHORT_TIMEOUT}"))
    store.keep_changes(7)

    with pytest.raises(StoreUnavailableError), store.watch_changes() as wait:  # noqa: PT012
        primary.signal_all(signal.SIGSTOP)
        assert wait(0.1) is False
        assert fails(lambda: store.find_plants([1]))
        wait(60)

    standby.promote()
    change_on_the_new_primary(store)
    with store.watch_changes() as wait:
        store.apply_changes([PLANT])
        wait_until(lambda: wait(1))
