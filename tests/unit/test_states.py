"""The states of a request and its response, and the deadlines that follow from them."""

import re
from itertools import product

import pytest

from plantstore.server import states
from plantstore.server.deadlines import GRACE_SECONDS, READ_BYTES_MIN, WAITING_SECONDS, Deadlines
from plantstore.server.states import (
    DISCARDED_REST,
    NEXT_REQUEST,
    REQUEST,
    REQUEST_TRANSITIONS,
    STATES,
    Due,
    RequestEvent,
    RequestState,
    ResponseState,
    State,
)

# The table in the docstring: a state of a request, who responds to an error, whether that changes
# once the response has begun, and what is due for the client.
ROWS = re.findall(
    r"^    ([A-Z]+) +(?:the )?(\w+)(,?).*?  +(\w[^:\n]*)", str(states.__doc__), re.MULTILINE
)


def due(state: State) -> str:
    if state.deadline is None:
        return "nothing"
    limit = "idle_seconds" if state.deadline.is_idle else "request_seconds"
    return f"{state.deadline.due.name} after {limit}"


def test_the_docstring_says_who_responds_to_an_error_and_what_is_due() -> None:
    expected = {}
    for name, responder, changes, what_is_due in ROWS:
        request = RequestState[name]
        later = "application" if changes else responder
        expected[request, ResponseState.AWAITED] = responder, what_is_due
        if name not in ("CONNECTED", "IDLE", "HEAD"):  # without a head, no application responds
            expected[request, ResponseState.BEGUN] = later, what_is_due
            expected[request, ResponseState.ENDED] = later, what_is_due
            expected[request, ResponseState.WRITTEN] = "nobody", "CLOSE after request_seconds"

    found = {pair: (state.responder.value, due(state)) for pair, state in STATES.items()}

    assert {pair: each for pair, each in found.items() if pair[1] != "closed"} == expected


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


# The deadlines of a connection, whose clock the tests set.

REQUEST_SECONDS = 10.0
IDLE_SECONDS = 75.0


class Client:
    """The deadlines of a connection, and the actions of its client."""

    def __init__(self, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self.now = 1000.0
        self.unsent_bytes = 0
        self.is_closing = False
        self.may_send = True
        self.deadlines = Deadlines(
            request_seconds=REQUEST_SECONDS, idle_seconds=idle_seconds, clock=lambda: self.now
        )

    def request(self) -> None:
        """Send a complete request, and receive its response."""
        self.do("begin", "end", "respond")

    def do(self, *steps: str | float) -> None:
        """Take steps: begin or end a request, respond to it or to its beginning, or wait."""
        rules = {"begin": REQUEST, "end": None, "respond": NEXT_REQUEST, "discard": DISCARDED_REST}
        for step in steps:
            if isinstance(step, float):
                assert self.wait(step) is Due.NOTHING
            elif step == "request":
                self.request()
            else:
                self.deadlines.follow(rules[step])
                if step in {"respond", "discard"}:
                    self.deadlines.drain()

    def check(self) -> Due:
        return self.deadlines.check(
            unsent_bytes=self.unsent_bytes, is_closing=self.is_closing, may_send=self.may_send
        )

    def wait(self, seconds: float) -> Due:
        """Advance the clock, run each check when it is due, and return the first action due."""
        until = self.now + seconds
        due = Due.NOTHING
        while due is Due.NOTHING and self.deadlines.next_check <= until:
            self.now = self.deadlines.next_check
            due = self.check()
        if due is Due.NOTHING:
            self.now = until
        return due

    def late(self) -> tuple[Due, float]:
        """Return the first action that becomes due, and the seconds until then."""
        began = self.now
        return self.wait(1e6), self.now - began


def assert_late(client: Client, due: Due, seconds: float) -> None:
    found, after = client.late()
    assert found is due
    assert after == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("steps", "due", "seconds"),
    [
        (["begin"], Due.REFUSE, REQUEST_SECONDS),
        (["request", "request", 3.0, "begin"], Due.REFUSE, REQUEST_SECONDS),
        # Bytes of a request do not extend its deadline.
        (["begin", REQUEST_SECONDS - 1], Due.REFUSE, 1.0),
        ([], Due.CLOSE, REQUEST_SECONDS),
        (["request"], Due.CLOSE, IDLE_SECONDS),
        # The rest of an answered request must arrive, and then the connection is idle.
        (["begin", 3.0, "discard"], Due.CLOSE, REQUEST_SECONDS),
        (["begin", "discard", 3.0, "respond"], Due.CLOSE, IDLE_SECONDS),
        # Each response restarts the idle timeout.
        (["request", IDLE_SECONDS - 1] * 5 + ["request"], Due.CLOSE, IDLE_SECONDS),
    ],
)
def test_an_incomplete_request_is_refused_and_a_connection_without_a_request_is_closed(
    steps: list[str | float], due: Due, seconds: float
) -> None:
    client = Client()

    client.do(*steps)

    assert_late(client, due, seconds + GRACE_SECONDS)


def test_an_idle_connection_is_closed_on_time_even_if_idle_seconds_are_short() -> None:
    client = Client(idle_seconds=2)
    client.request()

    assert_late(client, Due.CLOSE, 2 + GRACE_SECONDS)


def test_the_service_has_no_deadline_for_its_response_and_bytes_in_the_grace_period_count() -> None:
    Client().do("begin", "end", 10 * IDLE_SECONDS)
    Client().do("begin", REQUEST_SECONDS, "end", 10 * REQUEST_SECONDS)


def test_after_a_blocked_event_loop_a_late_client_still_gets_the_grace_period() -> None:
    client = Client()
    client.do("begin")
    client.now += 100 * REQUEST_SECONDS

    first = client.check()

    assert first is Due.NOTHING
    assert_late(client, Due.REFUSE, GRACE_SECONDS)


def test_a_client_is_not_late_while_the_server_does_not_read_from_it() -> None:
    client = Client()
    client.do("begin")
    client.may_send = False
    assert client.wait(10 * REQUEST_SECONDS) is Due.NOTHING

    client.may_send = True

    due, seconds = client.late()
    assert due is Due.REFUSE
    assert seconds >= REQUEST_SECONDS - WAITING_SECONDS


@pytest.mark.parametrize(
    ("taken", "due"),
    [(READ_BYTES_MIN, Due.NOTHING), (READ_BYTES_MIN - 1, Due.ABORT), (0, Due.ABORT)],
)
def test_a_client_must_read_a_minimum_of_a_response_in_each_interval(taken: int, due: Due) -> None:
    client = Client()
    client.request()
    client.unsent_bytes = 10 * READ_BYTES_MIN
    assert client.wait(REQUEST_SECONDS) is Due.NOTHING

    client.unsent_bytes -= taken

    assert client.wait(REQUEST_SECONDS) is due


def test_short_idle_seconds_do_not_shorten_the_time_to_read_a_response() -> None:
    client = Client(idle_seconds=1)
    client.request()
    client.unsent_bytes = 10 * READ_BYTES_MIN

    assert client.late()[1] >= REQUEST_SECONDS


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_client_that_reads_complete_responses_or_all_of_one_that_goes_on_is_not_slow(
    *, is_whole: bool
) -> None:
    client = Client()
    client.request()
    client.unsent_bytes = READ_BYTES_MIN

    for _ in range(10):
        (client.request if is_whole else client.deadlines.drain)()
        assert client.wait(REQUEST_SECONDS) is Due.NOTHING


@pytest.mark.parametrize(
    ("steps", "seconds", "due"),
    [
        (["request"], IDLE_SECONDS, Due.CLOSE),
        (["begin", "discard"], REQUEST_SECONDS, Due.CLOSE),  # the rest of the request
        (["begin"], REQUEST_SECONDS, Due.REFUSE),  # it has begun its response
    ],
)
def test_a_deadline_counts_only_once_the_response_has_been_read(
    steps: list[str], seconds: float, due: Due
) -> None:
    client = Client()
    client.do(*steps)
    client.unsent_bytes = 100 * READ_BYTES_MIN
    for _ in range(20):
        assert client.wait(REQUEST_SECONDS) is Due.NOTHING
        client.unsent_bytes -= READ_BYTES_MIN

    client.unsent_bytes = 0

    assert client.wait(seconds - 2 * WAITING_SECONDS) is Due.NOTHING
    assert client.late()[0] is due


def test_a_closing_connection_is_aborted_if_its_client_does_not_close_it() -> None:
    client = Client()
    client.is_closing = True

    assert_late(client, Due.ABORT, REQUEST_SECONDS)
