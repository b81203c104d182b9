"""The id of a request: `X-Request-Id`, or `traceparent` by W3C Trace Context."""

import re

import pytest

from plantstore.observe import parse_trace_id, request_id

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
CONTINUED = {"traceparent": TRACEPARENT}


@pytest.mark.parametrize("form", ["00-{}-{}-01", "00-{}-{}-00", "01-{}-{}-01-what-comes"])
def test_the_trace_id_of_a_valid_traceparent_is_used(form: str) -> None:
    assert parse_trace_id(form.format(TRACE, PARENT)) == TRACE


@pytest.mark.parametrize(
    "traceparent",
    [
        *("", TRACE, "\u0660" * 55),
        *(f"00-{id_}-{PARENT}-01" for id_ in (TRACE.upper(), "0" * 32)),
        f"00-{TRACE}-{'0' * 16}-01",
        *(f"00-{TRACE}-{PARENT}{end}" for end in ("", "-01-more", "-01\n", "-0g")),
        *(f"{version}-{TRACE}-{PARENT}-01{end}" for version, end in (("ff", ""), ("01", "more"))),
        f"00-{TRACE}-{PARENT}-01,00-{TRACE}-{PARENT}-01",
    ],
)
def test_an_invalid_traceparent_is_ignored(traceparent: str) -> None:
    assert parse_trace_id(traceparent) is None


@pytest.mark.parametrize(
    "id_",
    [
        "d9b2d63d-a233-4123-847a-7090dc9e0f3b",
        "1f" * 16,
        "7F000001:8314_7F000001:1F90_65B2+0",
        "a/b=~.:@-" + "x" * 119,
    ],
)
def test_the_id_of_a_request_is_its_x_request_id(id_: str) -> None:
    field = {"x-request-id": id_}

    assert request_id(field) == id_
    assert request_id(CONTINUED | field) == id_


@pytest.mark.parametrize(
    "value",
    ["", "a b", "a\x1bb", '"a"', "\xe9", "x" * 129, "a\n", "a,a", "a,b"],
)
def test_an_invalid_x_request_id_is_ignored(value: str) -> None:
    """Two fields are one with a comma (`test_http11.py`)."""
    assert request_id({"x-request-id": value} | CONTINUED) == TRACE


def test_the_id_of_a_request_is_its_trace_id_or_else_a_new_id() -> None:
    assert request_id({"host": "x"} | CONTINUED) == TRACE
    for traceparent in ("", f"{TRACEPARENT},{TRACEPARENT}", "\xff"):
        fields = {"traceparent": traceparent} if traceparent else {}
        assert re.fullmatch("[0-9a-f]{32}", request_id(fields))
        assert request_id(fields) != TRACE
