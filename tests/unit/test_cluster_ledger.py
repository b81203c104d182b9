"""How `make cluster` counts lost changes, invented versions and stale reads."""

import pytest

from cluster.ledger import CREATED, DELETED, REPLACED, Event, Ledger, plant

PLANT = 16  # this plant goes through all three versions


def ledger(*, acknowledged: int, sent: int) -> Ledger:
    made = Ledger()
    made.sent[PLANT] = sent
    made.acknowledge(Event(0, 1.0, 2.0), PLANT, acknowledged)
    return made


@pytest.mark.parametrize(
    ("acknowledged", "sent", "stored", "lost"),
    [
        (CREATED, CREATED, CREATED, []),
        (CREATED, CREATED, None, [PLANT]),
        (CREATED, REPLACED, REPLACED, []),
        (REPLACED, REPLACED, CREATED, [PLANT]),
        (REPLACED, DELETED, None, []),
        (DELETED, DELETED, None, []),
        (DELETED, DELETED, REPLACED, [PLANT]),
    ],
)
def test_a_change_is_lost_if_the_stored_version_is_older_than_the_acknowledged_one(
    acknowledged: int, sent: int, stored: int | None, lost: list[int]
) -> None:
    made = ledger(acknowledged=acknowledged, sent=sent)

    found = made.lost({} if stored is None else {PLANT: plant(PLANT, stored)})

    assert found == lost


def test_a_stored_version_that_no_client_sent_is_invented() -> None:
    made = ledger(acknowledged=CREATED, sent=CREATED)

    assert made.invented({PLANT: plant(PLANT, CREATED)}) == []
    assert made.invented({PLANT: plant(PLANT, REPLACED)}) == [PLANT]
    assert made.invented({PLANT + 1: plant(PLANT + 1, CREATED)}) == [PLANT + 1]


def test_the_longest_time_without_a_change_begins_at_the_last_change_before_the_fault() -> None:
    made = ledger(acknowledged=CREATED, sent=CREATED)
    for ended in (3.0, 11.0, 12.0):
        made.changes.append(Event(0, ended - 0.5, ended))
    made.changes.append(Event(1, 4.5, 5.0))

    assert made.seconds_without_change(0, since=3.5, until=13.0) == 8
    assert made.seconds_without_change(1, since=3.5, until=13.0) == 8
    assert made.seconds_without_change(0, since=11.5, until=20.0) == 8


def test_a_stale_read_counts_only_after_its_own_instance_moved_to_the_new_primary() -> None:
    made = ledger(acknowledged=CREATED, sent=CREATED)
    made.changes += [Event(0, 9.0, 9.5), Event(0, 10.5, 11.0), Event(1, 14.0, 15.0)]
    made.stale += [Event(0, 10.8, 10.9), Event(0, 12.0, 12.1), Event(1, 12.0, 12.1)]

    assert made.stale_after_move(moved_at=10.0) == 1
