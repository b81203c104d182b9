"""The checks of histories and of cluster runs. They must reject what breaks a promise."""

from math import inf
from typing import Any

import pytest

from cluster.ledger import CREATED, DELETED, REPLACED, Event, Ledger, plant
from support.histories import ALWAYS, IF_ABSENT, Operation, State, is_explained

# Whether a sequential order explains a history.

A, B, C = ("a", None), ("b", "t"), ("c", None)


def op(
    called: float, answered: float, method: str, status: int, value: State = None, **more: Any
) -> Operation:
    wrote = value if method in ("POST", "PUT") else None
    seen = {} if wrote else {"saw": value}
    return Operation(called, answered, 1, method, status, wrote, **(seen | more))


def put(called: float, status: int, value: State, condition: State, saw: State = None) -> Operation:
    return op(called, called + 5, "PUT", status, value, condition=condition, saw=saw)


def delete(called: float, status: int, condition: State) -> Operation:
    return op(called, called + 5, "DELETE", status, condition=condition)


def patch(called: float, saw: State, name: str, value: str | None) -> Operation:
    return op(called, called + 5, "PATCH", 200, saw, patch=((name, value),))


@pytest.mark.parametrize(
    "history",
    [
        [op(0, 1, "GET", 200, A)],
        [op(0, 1, "POST", 400, A)],
        [op(0, 1, "POST", 503, A)],
        [op(0, 1, "POST", 200, A), op(2, 3, "GET", 404)],
        [op(0, 1, "POST", 200, A), op(2, 3, "POST", 200, B)],
        [op(0, 9, "POST", 200, A), op(0, 9, "POST", 200, B)],
        [op(0, 1, "PUT", 200, A)],
        [op(0, 1, "POST", 200, A), op(2, 3, "PUT", 200, B), op(4, 5, "GET", 200, A)],
        [op(0, 1, "POST", 200, A), op(2, 9, "DELETE", 204), op(2, 9, "DELETE", 204)],
        [op(0, 1, "POST", 200, A), put(2, 201, B, IF_ABSENT)],
        [op(0, 1, "POST", 200, A), put(2, 412, B, A, A)],
        [op(0, 1, "POST", 200, A), put(2, 412, B, C)],
        [op(0, 1, "POST", 200, A), put(2, 200, B, C)],
        [put(0, 201, A, ALWAYS)],
        [delete(0, 204, A)],
        # A lost update: two changes that expect the same plant are both made.
        [op(0, 1, "POST", 200, A), put(2, 200, B, A), put(2, 200, C, A)],
        # The second one of two patches undid the first one.
        [op(0, 1, "POST", 200, A), patch(2, C, "name", "c"), patch(2, ("a", "t"), "tag", "t")],
        # An acknowledged change is lost, and a request without a response does not explain it.
        [op(0, 1, "POST", 200, A), op(2, inf, "POST", 0, B), op(9, 10, "GET", 200, B)],
        [op(0, 1, "POST", 200, A), op(2, inf, "PUT", 0, B), op(9, 10, "GET", 404)],
        # A read that saw the plant is followed by one that did not.
        [op(0, 9, "POST", 200, A), op(1, 2, "GET", 200, A), op(3, 4, "GET", 404)],
    ],
)
def test_a_history_without_a_valid_sequential_order_is_rejected(history: list[Operation]) -> None:
    assert not is_explained(history)


# How `make cluster` counts lost changes, invented versions and stale reads.

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
