"""The `traceparent` field, by W3C Trace Context."""

import re

import pytest

from plantstore.tracing import parse_trace_id, request_id

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.mark.parametrize(
    "traceparent",
    [f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00", f"01-{TRACE}-{PARENT}-01-what-comes"],
)
def test_the_trace_id_of_a_valid_traceparent_is_used(traceparent: str) -> None:
    assert parse_trace_id(traceparent) == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        "",
        TRACE,
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"01-{TRACE}-{PARENT}-01more",
        f"00-{TRACE}-{PARENT}-01\n",
        f"00-{TRACE}-{PARENT}-0g",
        f"00-{TRACE}-{PARENT}-01,00-{TRACE}-{PARENT}-01",
        "\u0660" * 55,
    ],
)
def test_an_invalid_traceparent_is_ignored(traceparent: str) -> None:
    assert parse_trace_id(traceparent) is None


def test_the_id_of_a_request_is_its_trace_id_or_else_a_new_id() -> None:
    good = (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())

    assert request_id([(b"host", b"x"), good]) == TRACE
    for fields in ([], [good, good], [(b"traceparent", b"\xff")]):
        assert re.fullmatch("[0-9a-f]{32}", request_id(fields))
        assert request_id(fields) != TRACE
