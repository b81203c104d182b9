"""The states of a request and its response, and what follows from them."""

from itertools import product

import pytest

from plantstore.server.states import (
    REQUEST_TRANSITIONS,
    RESPONSE_TRANSITIONS,
    Progress,
    RequestEvent,
    RequestState,
    Responder,
    ResponseEvent,
    ResponseState,
)

# For each state of a request: who responds to an error while the response is awaited, once it has
# begun, and once it is written; and what is due for the client, while it is not and once it is.
RULES = """
    connected  connection  -           -       close    -
    idle       connection  -           -       close    -
    head       connection  -           -       refuse   -
    body       connection  application nobody  refuse   close
    stream     application application nobody  nothing  close
    whole      nobody      nobody      nobody  nothing  close
    failed     nobody      nobody      nobody  nothing  close
"""
ROWS = [tuple(line.split()) for line in RULES.strip().splitlines()]


def progress(request: RequestState, response: ResponseState) -> Progress:
    made = Progress(request)
    made.response = response
    return made


def due(made: Progress) -> str:
    return "nothing" if made.deadline is None else made.deadline.due.value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_state_says_who_responds_to_an_error_and_what_is_due(row: tuple[str, ...]) -> None:
    state = RequestState(row[0])
    awaited, written = (
        progress(state, each) for each in (ResponseState.AWAITED, ResponseState.WRITTEN)
    )

    assert (awaited.responder.value, due(awaited)) == (row[1], row[4])
    for response in (ResponseState.BEGUN, ResponseState.ENDED):
        begun = progress(state, response)
        assert row[2] in {"-", begun.responder.value}
        assert due(begun) == row[4]
    assert row[3] in {"-", written.responder.value}
    assert row[5] in {"-", due(written)}


def test_the_rules_have_all_states() -> None:
    assert [row[0] for row in ROWS] == list(RequestState)


@pytest.mark.parametrize(("state", "event"), [*product(RequestState, RequestEvent)])
def test_an_event_without_a_transition_of_the_request_raises(
    state: RequestState, event: RequestEvent
) -> None:
    made = Progress(state)

    if state in REQUEST_TRANSITIONS[event]:
        made.receive(event)
        assert made.request is REQUEST_TRANSITIONS[event][state]
    else:
        with pytest.raises(KeyError):
            made.receive(event)
        assert made.request is state


@pytest.mark.parametrize(("state", "event"), [*product(ResponseState, ResponseEvent)])
def test_an_event_without_a_transition_of_the_response_raises(
    state: ResponseState, event: ResponseEvent
) -> None:
    made = progress(RequestState.WHOLE, state)

    if state in RESPONSE_TRANSITIONS[event]:
        made.respond(event)
        assert made.response is RESPONSE_TRANSITIONS[event][state]
    else:
        with pytest.raises(KeyError):
            made.respond(event)
        assert made.response is state


def test_no_event_leaves_a_request_whose_end_is_known() -> None:
    """So nothing behind a body that was not taken becomes a part of it."""
    ended = (RequestState.WHOLE, RequestState.FAILED)

    after = {REQUEST_TRANSITIONS[each].get(state) for each, state in product(RequestEvent, ended)}

    assert after <= {None, *ended}


def test_nothing_happens_on_a_closed_connection() -> None:
    for state in RequestState:
        closed = progress(state, ResponseState.CLOSED)
        assert (closed.deadline, closed.is_over, closed.is_served) == (None, True, False)


def test_only_the_connection_responds_before_the_application_has_the_request() -> None:
    for state in (RequestState.CONNECTED, RequestState.IDLE, RequestState.HEAD):
        for response in ResponseState:
            assert progress(state, response).responder is Responder.CONNECTION
