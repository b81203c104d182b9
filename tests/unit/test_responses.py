"""The bytes of responses. `test_connection.py` and `tests/api/test_connection.py` send them."""

import pytest

from plantstore.server.responses import LAST_CHUNK, render_chunk, render_head

JSON = ("Content-Type", "application/json")
ADDED = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"


def test_a_head_has_its_fields_those_of_all_responses_and_ours() -> None:
    head = render_head(200, (JSON,), 2, "now")

    assert head == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 2\r\ncontent-type: application/json\r\n"
        + ADDED
        + b"\r\n"
    )


def test_a_response_with_its_own_caching_keeps_it() -> None:
    head = render_head(200, (("Cache-Control", "no-cache"),), 2)

    assert head.count(b"cache-control") == 1
    assert b"cache-control: no-cache" in head


def test_an_empty_response_has_no_content_type() -> None:
    head = render_head(200, (JSON,), 0)

    assert b"content-type: " not in head
    assert b"content-length: 0\r\n" in head


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_no_length(status: int) -> None:
    head = render_head(status, (), 0)

    assert b"content-length" not in head
    assert b"chunked" not in head


def test_a_response_in_pieces_has_no_length_and_is_chunked_if_its_client_knows_chunks() -> None:
    chunked = b"transfer-encoding: chunked"

    assert chunked in render_head(200, (), None, is_chunked=True)
    assert chunked not in render_head(200, (), None)
    assert b"content-length" not in render_head(200, (), None, is_chunked=True)


def test_the_last_response_of_a_connection_says_so() -> None:
    assert b"connection: close" in render_head(200, (), 2, keeps_alive=False)
    assert b"connection" not in render_head(200, (), 2)


def test_a_field_with_a_line_end_is_not_sent() -> None:
    with pytest.raises(RuntimeError, match="line end"):
        render_head(200, (("X", "y\r\nz: 1"),), 2)


def test_a_chunk_has_its_size_and_only_the_last_one_is_empty() -> None:
    assert render_chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
    assert render_chunk(b"") == b""
    assert LAST_CHUNK == b"0\r\n\r\n"
