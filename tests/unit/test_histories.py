"""The check that a sequential order explains a history. It must reject a history without one."""

import pytest

from support.histories import Operation, is_explained

A, B = ("a", None), ("b", "t")


def op(called: float, answered: float, method: str, status: int, value: object = None) -> Operation:
    wrote = value if method in ("POST", "PUT") else None
    saw = value if method == "GET" else None
    return Operation(called, answered, 1, method, status, wrote, saw)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "history",
    [
        [],
        [op(0, 1, "POST", 200, A), op(2, 3, "POST", 200, A), op(4, 5, "POST", 400, B)],
        [op(0, 1, "POST", 200, A), op(2, 3, "PUT", 200, B), op(4, 5, "GET", 200, B)],
        [op(0, 1, "POST", 200, A), op(2, 3, "DELETE", 204), op(4, 5, "GET", 404)],
        [op(0, 9, "POST", 200, A), op(1, 2, "GET", 404), op(3, 4, "GET", 200, A)],
        [op(0, 9, "POST", 200, A), op(0, 9, "POST", 200, B), op(0, 9, "DELETE", 204)],
        [op(0, 9, "POST", 400, A), op(0, 9, "POST", 200, B)],
    ],
)
def test_a_history_with_a_valid_sequential_order_is_accepted(history: list[Operation]) -> None:
    assert is_explained(history)


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
        # A read that saw the plant is followed by one that did not.
        [op(0, 9, "POST", 200, A), op(1, 2, "GET", 200, A), op(3, 4, "GET", 404)],
    ],
)
def test_a_history_without_a_valid_sequential_order_is_rejected(history: list[Operation]) -> None:
    assert not is_explained(history)
