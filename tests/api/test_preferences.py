"""The media type that a client prefers by its Accept field (RFC 9110 §12.5.1)."""

import pytest

from plantstore.api.parameters import preferred
from plantstore.server.interface import Request
from support.world import METRICS

JSON, EVENTS = "application/json", "text/event-stream"
TEXT, OPEN = METRICS

# Java's URLConnection sends this, unless its program sets another one.
JAVA = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        # Ranges. The first of two types with one weight is preferred.
        *((each, JSON) for each in ("*/*", "*", "application/*", "application/json")),
        *((each, JSON) for each in (f"{EVENTS}, {JSON}", "text/*,application/*", f"{EVENTS}, *")),
        *(
            (each, EVENTS)
            for each in (EVENTS, "text/*", "Text/Event-Stream", f"text/html,{EVENTS}")
        ),
        *((each, EVENTS) for each in (f" ,{EVENTS},, ", f"\t{EVENTS} ;", f"image/*, {EVENTS};;")),
        # Weights.
        *((each, EVENTS) for each in (f"{JSON};q=0.9, {EVENTS}", f"*/*;q=0.1,{EVENTS};q=0.2")),
        *((each, EVENTS) for each in (f"{JSON} ; Q=0.5, {EVENTS};q=0.501", f"{JSON};q=0, */*")),
        *((each, JSON) for each in (f"{JSON};q=1.000, {EVENTS};q=0.999", f"{EVENTS};q=0, *")),
        *((each, JSON) for each in (f"{EVENTS};q=0.3, {JSON};q=.4", "*/*;q=0.001", JAVA)),
        # The most specific range counts, not the first one, nor that with the largest weight.
        *((each, EVENTS) for each in (f"*/*, {JSON};q=0.1", f"{JSON};q=0.1, */*")),
        *((each, EVENTS) for each in ("*/*, application/*;q=0.5", "application/*;q=0, */*;q=0.1")),
        (f"text/*;q=0.1, {EVENTS};q=0.9, {JSON};q=0.5", EVENTS),
        (f"text/*;q=0.9, {EVENTS};q=0.1, {JSON};q=0.5", JSON),
        # Parameters that we do not have contradict nothing. A comma in quotes separates nothing.
        *((each, EVENTS) for each in (f"{EVENTS};charset=utf-8", f"{EVENTS};a=b;q=0.5")),
        (f'image/png;a="b,{JSON}", {EVENTS}', EVENTS),
        (f'{EVENTS};a="b\\",{JSON}"', EVENTS),
        # Nothing is accepted.
        *((each, None) for each in ("", ",", "text/html", "garbage", "/", "image/*", "*/*;q=0")),
        *((each, None) for each in (f"{JSON};q=0, {EVENTS};q=0.000", "*;q=0", "application/jso")),
        *((each, None) for each in ("application", "application/", "/json", "text", "**", "*/png")),
        # Malformed weights.
        *(
            (f"{JSON};q={q}", None)
            for q in ("", ".", "2", "1.1", "-1", "0.1234", "1e-1", "x", "nan")
        ),
        *((f"{JSON};q={q}", None) for q in ("\u0660", "0.\u0665", "0 .5", '"1"', "1;q=2", "inf")),
        (f"{JSON}, image/png;q=x", None),
    ],
)
def test_the_preferred_media_type_is_that_with_the_largest_weight(
    accept: str, expected: str | None
) -> None:
    request = Request("GET", "/changes", fields={"accept": accept})

    assert preferred(request, (JSON, EVENTS)) == expected


def test_without_accept_the_first_media_type_is_preferred() -> None:
    assert preferred(Request("GET", "/changes"), (JSON, EVENTS)) == JSON
    assert preferred(Request("GET", "/changes"), (EVENTS, JSON)) == EVENTS


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/openmetrics-text", OPEN),
        ("application/openmetrics-text;version=1.0.0", OPEN),
        ("application/openmetrics-text; version=1.0.0; escaping=underscores", OPEN),
        ("application/openmetrics-text;version=0.0.1", None),
        ("application/openmetrics-text;version=0.0.1,text/plain;version=0.0.4;q=0.1", TEXT),
        # A range with a parameter is more specific than one without.
        ("text/plain;q=0.1,text/plain;version=0.0.4,application/openmetrics-text;q=0.5", TEXT),
        ("text/plain,text/plain;version=0.0.4;q=0.1,application/openmetrics-text;q=0.5", OPEN),
        (
            "text/plain;version=1.0.0;q=0.9,text/plain;q=0.1,application/openmetrics-text;q=0.5",
            OPEN,
        ),
    ],
)
def test_a_range_matches_if_its_parameters_contradict_none_of_ours(
    accept: str, expected: str | None
) -> None:
    request = Request("GET", "/metrics", fields={"accept": accept})

    assert preferred(request, (TEXT, OPEN)) == expected
