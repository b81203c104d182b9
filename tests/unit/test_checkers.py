"""The check of histories rejects what breaks a promise."""

from math import inf
from typing import Any

import pytest

from support.histories import Operation, State, is_explained

A, B, C = ("a", None), ("b", "t"), ("c", None)


def op(
    called: float, answered: float, method: str, status: int, value: State = None, **more: Any
) -> Operation:
    wrote = value if method in ("POST", "PUT") else None
    seen = {} if wrote else {"saw": value}
    return Operation(called, answered, 1, method, status, wrote, **(seen | more))


def put(called: float, value: State, condition: State) -> Operation:
    return op(called, called + 5, "PUT", 200, value, condition=condition)


def patch(called: float, saw: State, name: str, value: str | None) -> Operation:
    return op(called, called + 5, "PATCH", 200, saw, patch=((name, value),))


STORED = op(0, 1, "POST", 200, A)
REJECTED = {
    "a plant that nobody stored is read": [op(0, 1, "GET", 200, A)],
    "a stored plant is missing": [STORED, op(2, 3, "GET", 404)],
    "an id is given twice": [op(0, 9, "POST", 200, A), op(0, 9, "POST", 200, B)],
    "a lost update": [STORED, put(2, B, A), put(2, C, A)],
    "a patch undoes another": [
        *(STORED, patch(2, C, "name", "c"), patch(2, ("a", "t"), "tag", "t")),
    ],
    "a request without a response explains no loss": [
        *(STORED, op(2, inf, "PUT", 0, B), op(9, 10, "GET", 404)),
    ],
    "a read that saw the plant is followed by one that did not": [
        *(op(0, 9, "POST", 200, A), op(1, 2, "GET", 200, A), op(3, 4, "GET", 404)),
    ],
}


@pytest.mark.parametrize("history", REJECTED.values(), ids=REJECTED)
def test_a_history_without_a_valid_sequential_order_is_rejected(history: list[Operation]) -> None:
    assert not is_explained(history)
