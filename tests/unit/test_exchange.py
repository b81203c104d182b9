"""The heads of responses. `tests/api/test_connection.py` and `tests/e2e/test_http.py` send them."""

import pytest

from plantstore.server.exchange import render_head

DATE = ((b"date", b"now"),)
JSON = (b"content-type", b"application/json")
TWO = (b"content-length", b"2")
ADDED = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"


def test_a_head_has_its_fields_those_of_all_responses_and_ours() -> None:
    head, body_bytes = render_head(200, (JSON, TWO), DATE)

    assert head == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
        + ADDED
        + b"\r\n"
    )
    assert body_bytes == 2


def test_a_response_with_its_own_caching_keeps_it() -> None:
    head, _ = render_head(200, ((b"cache-control", b"no-cache"), TWO))

    assert head.count(b"cache-control") == 1
    assert b"cache-control: no-cache" in head


def test_an_empty_response_has_no_content_type() -> None:
    head, body_bytes = render_head(200, (JSON, (b"content-length", b"0")))

    assert b"content-type: " not in head
    assert body_bytes == 0


def test_a_response_without_a_length_is_chunked_unless_it_has_no_body() -> None:
    chunked = b"transfer-encoding: chunked"

    assert chunked in render_head(200, ())[0]
    assert chunked not in render_head(204, ())[0]
    assert chunked not in render_head(304, ())[0]
    assert chunked not in render_head(200, (), is_head=True)[0]


def test_the_last_response_of_a_connection_says_so() -> None:
    assert b"connection: close" in render_head(200, (TWO,), keeps_alive=False)[0]


def test_a_field_with_a_line_end_is_not_sent() -> None:
    with pytest.raises(RuntimeError, match="line end"):
        render_head(200, ((b"x", b"y\r\nz: 1"),))
