"""Histories of concurrent operations on plants, and a check that they are linearizable.

Linearizability (Herlihy and Wing, 1990): each operation appears to take effect at one
moment between its call and its response. The search is that of Wing and Gong (1993), which
tries every operation that may be the next one. As in Lowe (2017), it remembers the states
that it has tried. Plants are checked one by one: a history is linearizable if the history
of each object is.
"""

import random
import time
from collections.abc import Sequence
from multiprocessing.synchronize import Barrier
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from support.service import Client

# The name and tag of a plant, or None if the plant does not exist.
State: TypeAlias = tuple[str, str | None] | None

IMPOSSIBLE = ("impossible", "")


class Operation(NamedTuple):
    """A request for one plant; `wrote` is the plant it sent, `saw` the plant a GET returned."""

    called: float
    answered: float
    id: int
    method: str
    status: int
    wrote: State = None
    saw: State = None


def apply(operation: Operation, state: State) -> State:
    """Return the state after an operation, or IMPOSSIBLE if its response contradicts `state`."""
    there = state is not None
    match operation.method, operation.status:
        case "GET", 200:
            fits, after = there and state == operation.saw, state
        case "GET" | "PUT" | "DELETE", 404:
            fits, after = not there, None
        case "PUT", 200:
            fits, after = there, operation.wrote
        case "DELETE", 204:
            fits, after = there, None
        case "POST", 200:
            fits, after = not there or state == operation.wrote, operation.wrote
        case "POST", 400:
            fits, after = there and state != operation.wrote, state
        case _:
            fits = False
    return after if fits else IMPOSSIBLE


def is_explained(history: Sequence[Operation], state: State = None) -> bool:
    """Return whether some order of the operations on one plant explains all responses."""
    operations = sorted(history, key=attrgetter("called"))
    everything = (1 << len(operations)) - 1
    tried: set[tuple[int, State]] = set()
    waiting = [(0, state)]
    while waiting:
        done, now = waiting.pop()
        if done == everything:
            return True
        if (done, now) in tried:
            continue
        tried.add((done, now))
        first_answer = float("inf")
        for number, operation in enumerate(operations):
            if operation.called > first_answer:
                break  # called after the response to an operation that is not yet in the order
            if not done >> number & 1:
                first_answer = min(first_answer, operation.answered)
                after = apply(operation, now)
                if after != IMPOSSIBLE:
                    waiting.append((done | 1 << number, after))
    return False


_begin: Barrier


def wait_for_the_others(barrier: Barrier) -> None:
    """Store the barrier at which the processes of the pool wait before they start."""
    global _begin  # noqa: PLW0603 (a barrier cannot be an argument of a pool's task)
    _begin = barrier


def play(port: int, token: str, seed: int, operations: int) -> list[Operation]:
    """Send random requests for a few plants, one after the other; return their history."""
    chance = random.Random(seed)
    client = Client(port, token)
    client.send("GET", "/plants")
    history = []
    _begin.wait(60)
    for _ in range(operations):
        id_ = chance.randrange(3)
        method = chance.choice(["POST", "PUT", "DELETE", "GET"])
        wrote = (chance.choice("ab"), chance.choice(["t", None]))
        called = time.monotonic()
        match method:
            case "POST":
                answer = client.send_record(method, "/plants", *wrote, id=id_)
            case "PUT":
                answer = client.send_record(method, f"/plants/{id_}", *wrote)
            case _:
                answer = client.send(method, f"/plants/{id_}")
        answered = time.monotonic()
        shown = answer.json if (method, answer.status) == ("GET", 200) else None
        history.append(
            Operation(
                called,
                answered,
                id_,
                method,
                answer.status,
                wrote if method in ("POST", "PUT") else None,
                (shown["name"], shown.get("tag")) if shown else None,
            )
        )
    client.close()
    return history
