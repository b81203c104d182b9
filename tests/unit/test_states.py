"""The states of a request and its response, and what follows from them."""

from itertools import product

import pytest

from plantstore.server.states import (
    REQUEST_TRANSITIONS,
    STATES,
    RequestEvent,
    RequestState,
    Responder,
    ResponseState,
    State,
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


def due(state: State) -> str:
    return "nothing" if state.deadline is None else state.deadline.due.value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_each_state_says_who_responds_to_an_error_and_what_is_due(row: tuple[str, ...]) -> None:
    request = RequestState(row[0])
    expected = {
        ResponseState.AWAITED: (row[1], row[4]),
        ResponseState.BEGUN: (row[2], row[4]),
        ResponseState.ENDED: (row[2], row[4]),
        ResponseState.WRITTEN: (row[3], row[5]),
    }
    for response, (responder, what_is_due) in expected.items():
        if responder == "-":
            assert (request, response) not in STATES
        else:
            state = STATES[request, response]
            assert (state.responder.value, due(state)) == (responder, what_is_due)


def test_the_rules_have_all_states() -> None:
    assert [row[0] for row in ROWS] == list(RequestState)


@pytest.mark.parametrize("before", ["connected", "idle", "head"])
def test_a_head_ends_with_its_body_or_before_it_also_if_no_byte_of_it_had_arrived(
    before: str,
) -> None:
    after = STATES[RequestState(before), ResponseState.AWAITED].after

    assert after[RequestEvent.ARRIVAL].request is RequestState.WHOLE
    assert after[RequestEvent.HEAD_END].request is RequestState.BODY


def test_no_event_leaves_a_request_whose_end_is_known() -> None:
    """So nothing behind a body that was not taken becomes a part of it."""
    ended = (RequestState.WHOLE, RequestState.FAILED)

    after = {REQUEST_TRANSITIONS[each].get(state) for each, state in product(RequestEvent, ended)}

    assert after <= {None, *ended}


def test_a_request_is_served_until_its_response_is_written() -> None:
    """The rest of its body is discarded then, and not held."""
    served = {response for (request, response), state in STATES.items() if state.is_served}

    assert served == {ResponseState.AWAITED, ResponseState.BEGUN, ResponseState.ENDED}


def test_nothing_happens_on_a_closed_connection() -> None:
    for state in RequestState:
        closed = STATES[state, ResponseState.CLOSED]
        assert (closed.deadline, closed.is_over, closed.is_served) == (None, True, False)


def test_only_the_connection_responds_before_the_application_has_the_request() -> None:
    for (request, _), state in STATES.items():
        if request in {RequestState.CONNECTED, RequestState.IDLE, RequestState.HEAD}:
            assert state.responder is Responder.CONNECTION
