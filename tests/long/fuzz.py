"""Coverage-guided fuzzing of the parsers of untrusted input.

    python tests/long/fuzz.py TARGET -runs=100000 -seed=1 -max_len=1024 CORPUS

It runs as a separate process because atheris ends the process: with status 0 if it found
nothing. It prints a failing input and writes it to a file named `crash-...`.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["plantstore", "support", "urllib"]):
    from plantstore.api.paging import LISTING_PARAMETERS, links_to_pages, parse_page_request
    from plantstore.api.parameters import parse_integer, read_query
    from plantstore.errors import ErrorCode, RequestError
    from plantstore.listings import Page, Place, PlantsPage
    from plantstore.plants import (
        ID_MAX,
        ID_MIN,
        NewPlant,
        Plant,
        parse_new_plant,
        parse_plant,
        render_plant,
        render_stored_plant,
    )
    from plantstore.server.interface import Request
    from support.bodies import read_plainly

INVALID = {ErrorCode.NOT_JSON, ErrorCode.INVALID_PLANT, ErrorCode.UNSTORABLE_TEXT}

# Parsers have different limits on nesting depth, all of them higher than this.
DEPTH_MAX = 500

_T = TypeVar("_T")


def accepted(read: Callable[[], _T], *codes: ErrorCode) -> _T | None:
    """Return the result of `read`, or None if the input was refused with one of these codes."""
    try:
        return read()
    except RequestError as refused:
        error = refused
    assert error.code in codes, error.code
    assert error.message
    return None


def fuzz_plant(body: bytes) -> None:
    """Compare both parsers with the reference parser, and parse what is rendered again."""
    new = accepted(lambda: parse_new_plant(body), *INVALID)
    plant = accepted(lambda: parse_plant(body), *INVALID)

    if body.count(b"[") + body.count(b"{") < DEPTH_MAX:
        assert new == read_plainly(body)
        assert plant == read_without_id(body)
    if new is not None:
        assert plant == Plant(new.name, new.tag)
        assert parse_new_plant(render_stored_plant(new)) == new
    if plant is not None:
        assert parse_plant(render_plant(plant)) == plant


def read_without_id(body: bytes) -> Plant | None:
    """Read a Plant with the reference parser, by adding an id: of two ids, the last one counts."""
    inside = body.strip(b" \t\r\n")
    if not inside.endswith(b"}"):
        return None
    plant = read_plainly(inside[:-1] + b',"id":1}')
    return None if plant is None else Plant(plant.name, plant.tag)


def fuzz_query(query: bytes) -> None:
    """Parse a query as a listing, unless it is refused; parse the link to the next page as well."""
    text = query.decode("latin-1")  # the server itself accepts only ASCII
    accepted(lambda: parse_integer(text), ErrorCode.INVALID_PARAMETER)
    parameters = accepted(lambda: read(text), ErrorCode.INVALID_PARAMETER)
    if parameters is None:
        return
    assert parameters.keys() <= {*LISTING_PARAMETERS}
    request = accepted(lambda: parse_page_request(parameters), ErrorCode.INVALID_PARAMETER)
    if request is None:
        return
    listing = request.listing
    assert listing.after is None or ID_MIN <= listing.after <= ID_MAX
    assert 1 <= listing.limit <= 1000
    assert listing.tag == parameters.get("tag")
    assert (listing.words is None) == ("q" not in parameters)
    is_by_name = listing.place is not None
    end = None if request.is_before else Place("", ID_MIN) if is_by_name else ID_MIN
    page: PlantsPage = Page([NewPlant(ID_MIN, "a")], end, is_last=end is None)
    link = links_to_pages(request, page)
    assert link.isascii()
    target = urlsplit(link.partition(">")[0].removeprefix("<"))
    assert read(target.query) == {
        name: value
        for name, value in parameters.items()
        if name != "from" and (name != "before" or request.until is not None)
    } | {"after": str(ID_MIN), **({"from": ""} if is_by_name else {})}


def read(query: str) -> dict[str, str]:
    """Parse the query of a request."""
    return read_query(Request("GET", "/plants", query), *LISTING_PARAMETERS)


TARGETS = {"plant": fuzz_plant, "query": fuzz_query}

if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *sys.argv[2:]], TARGETS[sys.argv[1]])
    atheris.Fuzz()
