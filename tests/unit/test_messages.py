"""An error message is one line, even if it quotes input with line breaks (found by fuzzing)."""

from types import SimpleNamespace
from typing import Any

import pytest

from plantstore.api.parameters import parse_id, read_query
from plantstore.api.plants import LISTING_PARAMETERS, parse_page_request
from plantstore.errors import RequestError
from plantstore.plants import parse_new_plant


@pytest.mark.parametrize(
    "refuse",
    [
        lambda: parse_new_plant(b'{"id":[1,\n2],"name":"a"}'),
        lambda: parse_id("1\n2"),
        lambda: parse_page_request({"limit": "1\n2"}),
        lambda: parse_page_request({"after": "1\r2"}),
        lambda: parse_page_request({"order": "i\nd"}),
        lambda: read_query(_request("a%0Ab=1"), LISTING_PARAMETERS),
    ],
)
def test_a_message_is_one_line_whatever_it_quotes(refuse: Any) -> None:
    with pytest.raises(RequestError) as refused:
        refuse()

    assert len(refused.value.message.splitlines()) == 1


def _request(query: str) -> Any:
    return SimpleNamespace(query_string=query)
