"""Histories of concurrent operations on plants, and a check that they are linearizable.

Linearizability (Herlihy and Wing, 1990): each operation appears to take effect at one
moment between its call and its response. The search is that of Wing and Gong (1993), which
tries every operation that may be the next one. As in Lowe (2017), it remembers the states
that it has tried. Plants are checked one by one: a history is linearizable if the history
of each object is.
"""

import contextlib
import http.client
import json
import random
import time
from collections.abc import Sequence
from itertools import product
from math import inf
from operator import attrgetter
from threading import Barrier
from typing import NamedTuple, TypeAlias

from plantstore.changes import entity_tag
from support.service import Answer, Client

# The name and tag of a plant, or None if the plant does not exist.
State: TypeAlias = tuple[str, str | None] | None

# The members of a patch.
Patch: TypeAlias = tuple[tuple[str, str | None], ...]

IMPOSSIBLE = ("impossible", "")

# The conditions of requests: none, or `If-None-Match: *`. Other states stand for `If-Match` with
# the entity tag of that state.
ALWAYS = ("always", "")
IF_ABSENT = None

# All plants that clients send.
PLANTS = [*product("ab", ["t", None])]


class Operation(NamedTuple):
    """A request for one plant.

    `wrote` is the plant that it sent, and `patch` the members. `saw` is the plant that a GET or a
    PATCH returned, or that a 412 named by its entity tag. Without a response, `status` is 0: the
    request took effect at any later moment, or never.
    """

    called: float
    answered: float
    id: int
    method: str
    status: int
    wrote: State = None
    saw: State = None
    patch: Patch = ()
    condition: State = ALWAYS


def apply(operation: Operation, state: State) -> State:
    """Return the state after an operation, or IMPOSSIBLE if its response contradicts `state`."""
    there = state is not None
    made = patched(state, operation.patch) if operation.method == "PATCH" else operation.wrote
    permitted = is_permitted(operation.condition, state, made)
    match operation.method, operation.status:
        case _, 412:
            return state if not permitted and state == operation.saw else IMPOSSIBLE
        case "GET", 200:
            fits, after = there and state == operation.saw, state
        case "GET" | "PUT" | "PATCH" | "DELETE", 404:
            fits, after = not there, None
        case "PUT", 200:
            fits, after = there, made
        case "PUT", 201:
            fits, after = not there and operation.condition is IF_ABSENT, made
        case "PATCH", 200:
            fits, after = there and made == operation.saw, made
        case "DELETE", 204:
            fits, after = there, None
        case "POST", 200:
            fits, after = not there or state == made, made
        case "POST", 400:
            fits, after = there and state != made, state
        case _:
            fits = False
    return after if fits and permitted else IMPOSSIBLE


def effect(operation: Operation, state: State) -> State:
    """Return the state after an operation without a response, if it took effect."""
    made = patched(state, operation.patch) if operation.method == "PATCH" else operation.wrote
    creates = operation.method == "POST" or operation.condition is IF_ABSENT
    is_lost = operation.method == "GET" or creates is not (state is None)
    return state if is_lost or not is_permitted(operation.condition, state, made) else made


def patched(state: State, patch: Patch) -> State:
    if state is None:
        return None
    members = dict(patch)
    return members.get("name") or state[0], members.get("tag", state[1])


def is_permitted(condition: State, state: State, made: State) -> bool:
    """Return whether a condition is true, or the change was made before (RFC 9110 §13.1.1)."""
    if condition == ALWAYS:
        return True
    if condition is IF_ABSENT:
        return state is None
    return state is not None and state in (condition, made)


def is_explained(history: Sequence[Operation]) -> bool:
    """Return whether some order of the operations on one plant explains all responses."""
    operations = sorted(history, key=attrgetter("called"))
    everything = (1 << len(operations)) - 1
    tried: set[tuple[int, State]] = set()
    waiting: list[tuple[int, State]] = [(0, None)]
    while waiting:
        done, now = waiting.pop()
        if done == everything:
            return True
        if (done, now) in tried:
            continue
        tried.add((done, now))
        first_answer = inf
        for number, operation in enumerate(operations):
            if operation.called > first_answer:
                break  # called after the response to an operation that is not yet in the order
            if not done >> number & 1:
                first_answer = min(first_answer, operation.answered)
                if operation.status:
                    states = {apply(operation, now)} - {IMPOSSIBLE}
                else:
                    states = {now, effect(operation, now)}
                waiting += [(done | 1 << number, after) for after in states]
    return False


def play(client: Client, barrier: Barrier, seed: int, operations: int) -> list[Operation]:
    """Send random requests for a few plants, one after the other; return their history.

    The client begins when all clients have connected. It ends early if the server does.
    """
    chance = random.Random(seed)
    client.send("GET", "/plants")
    history: list[Operation] = []
    barrier.wait(60)
    for _ in range(operations):
        request = draw(chance)._replace(called=time.monotonic())
        history.append(request)
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = send(client, request)
            saw, answered = seen(request.method, answer), time.monotonic()
            history[-1] = request._replace(status=answer.status, saw=saw, answered=answered)
        if not history[-1].status:
            break
    client.close()
    return history


def draw(chance: random.Random) -> Operation:
    """Return a random request, as an operation without a response."""
    method = chance.choice(["POST", "PUT", "PATCH", "DELETE", "GET"])
    wrote = chance.choice(PLANTS) if method in ("POST", "PUT") else None
    member = chance.choice([("name", "a"), ("name", "b"), ("tag", "t"), ("tag", None)])
    conditions: list[State] = [ALWAYS]
    if method in ("PUT", "PATCH", "DELETE"):
        conditions += chance.sample(PLANTS, 2)
    if method == "PUT":
        conditions.append(IF_ABSENT)
    patch = (member,) if method == "PATCH" else ()
    condition = chance.choice(conditions)
    return Operation(0, inf, chance.randrange(3), method, 0, wrote, None, patch, condition)


def send(client: Client, request: Operation) -> Answer:
    path = f"/plants/{request.id}"
    fields = {}
    if request.condition is IF_ABSENT:
        fields["If-None-Match"] = "*"
    elif request.condition != ALWAYS:
        fields["If-Match"] = entity_tag(*request.condition)
    if request.method == "PATCH":
        fields["Content-Type"] = "application/merge-patch+json"
        return client.send("PATCH", path, json.dumps(dict(request.patch)), fields)
    if request.wrote is None:
        return client.send(request.method, path, headers=fields)
    name, tag = request.wrote
    record = {"id": request.id, "name": name} | ({} if tag is None else {"tag": tag})
    path = "/plants" if request.method == "POST" else path
    return client.send(request.method, path, json.dumps(record), fields)


def seen(method: str, answer: Answer) -> State:
    """Return the plant that a response shows or names."""
    if answer.status == 412:
        tags = {entity_tag(*plant): plant for plant in PLANTS}
        return tags[answer.headers["etag"]] if "etag" in answer.headers else None
    if (method, answer.status) in (("GET", 200), ("PATCH", 200)):
        return answer.json["name"], answer.json.get("tag")
    return None
