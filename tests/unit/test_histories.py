"""The check that a sequential order explains a history. It must reject a history without one."""

from math import inf
from typing import Any

import pytest

from support.histories import ALWAYS, IF_ABSENT, Operation, State, is_explained

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
