"""Clients of the simulation: each sends requests at random, and tells the model what it learns."""

import asyncio
import contextlib
import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from plantstore.changes import entity_tag
from plantstore.feed import Kind, Recorded
from simulation.http import Http, LateError, LostError, Response, request
from simulation.model import BRIEF, Effect, Export, Model, Value
from simulation.scheduler import Loop
from simulation.service import Service
from support.histories import ALWAYS, Operation

JSON = "Content-Type: application/json"

# Ids of the plants of different clients. Those that are handed out are greater.
IDS_OF_A_CLIENT = 1_000_000

# A revocation takes effect within this time.
REVOKED_SECONDS = 2.0

# The values of the plants that all clients change, by their entity tags.
_WILLOWS = {entity_tag(name, None): (name, None) for name in ("Salix a", "Salix b", "Salix c")}

_KINDS = {kind.name.lower(): kind for kind in Kind}

_COUNTS = {"stored", "already_stored", "replaced", "deleted", "skipped", "refused"}


class _UnknownError(Exception):
    """It is not known what an undo has done."""


class Actor:
    """What all clients have.

    Args:
        name: in the trace.
        loop: schedules everything.
        model: is told what the client learns.
        find_service: returns the service that runs now.
        token: of the client.

    """

    def __init__(
        self, name: str, loop: Loop, model: Model, find_service: Callable[[], Service], token: str
    ) -> None:
        self.name = name
        self.token = token
        self._loop = loop
        self._chance = random.Random(loop.chance.getrandbits(64))
        self._model = model
        self._find_service = find_service


class Client(Actor):
    """A client that reads and changes plants of its own. `number` is that of the client."""

    def __init__(self, number: int, *arguments: Any) -> None:
        super().__init__(f"client {number}", *arguments)
        self._first = -(number + 1) * IDS_OF_A_CLIENT
        self._fresh = itertools.count(self._first)
        self._mine: list[int] = []
        self._sets = itertools.count()
        self._http: Http | None = None

    async def run(self, actions: int) -> None:
        """Act so many times."""
        chance = self._chance
        self._http = None
        acts = [self.create] * 4 + [self.change, self.change, self.show]
        acts += [self.create_again, self.walk, self.export] + [self.take_ids] * 3
        acts += [self.disturb, self.pipeline, self.burst, self.burst]
        acts += [self.store_file] * 4 + [self.send_changes, self.use_set] * 2
        for _ in range(actions):
            await asyncio.sleep(chance.choice([0, 0.001, 0.01, 0.3]))
            act = chance.choice(acts)
            try:
                await act()
            except (LostError, ConnectionRefusedError):
                self._http = None
            except _UnknownError:
                pass
            except LateError:
                self._model.fail(f"{self.name}: {act.__name__} gets no response")
                self._http = None

    # Requests.

    async def _ask(self, data: bytes) -> Response:
        """Send a request, and return its response. A client may also leave.

        Raises:
            LostError: there is none.

        """
        chance = self._chance
        if self._http is None or chance.random() < 0.1:
            self._http = None
            self._http = Http(self._find_service(), chance, is_slow=chance.random() < 0.2)
        http = self._http
        if chance.random() < 0.04:
            await http.send(data[: chance.randrange(len(data) + 1)])
            await asyncio.sleep(chance.choice([0, 0.01, 1]))
            http.leave()
            raise LostError
        await http.send(data)
        response = await http.response()
        if response.fields.get("connection") == "close":
            self._http = None
        self._loop.note(f"{self.name}: {response.status} {data[:60]!r}")
        return response

    async def _change(
        self, id_: int, data: bytes, make: Effect, fits: Callable[[Value], bool]
    ) -> None:
        """Send a change, which is refused unless the plant fits; note what is known then."""
        model, before = self._model, self._model.of(id_)
        model.doubt(id_, make)
        response = await self._ask(data)
        if is_harmless(response) or response.status in (401, 408, 429):
            model.possible[id_] = before
        elif response.status in (200, 204, 400, 412):
            is_made = response.status < 300
            model.possible[id_] = before
            model.settle(self.name, id_, lambda value: fits(value) is is_made, make)

    def _expected(self) -> tuple[int, Value] | None:
        """Return the id of a plant whose value is known, and that value or another one."""
        known = [id_ for id_ in self._mine if self._model.is_known(id_)]
        if not known:
            return None
        [value] = self._model.of(id_ := self._chance.choice(known))
        return id_, value if self._chance.random() < 0.7 else ("another", None)

    def _value(self) -> tuple[str, str | None]:
        name = f"Abies {self._chance.randrange(1000)}" + "x" * self._chance.choice([0, 0, 0, 3000])
        return name, self._chance.choice([None, "Pinaceae"])

    async def create(self) -> None:
        id_ = next(self._fresh)
        self._mine.append(id_)
        fields = ["Expect: 100-continue"] if self._chance.random() < 0.2 else []
        await self._create(id_, self._value(), *fields)

    async def create_again(self) -> None:
        """Create a plant under an id that may be taken, with the same value or another."""
        if self._mine:
            id_ = self._chance.choice(self._mine)
            values = [value for value in self._model.of(id_) if value is not None]
            await self._create(id_, self._chance.choice([*values, self._value()]))

    async def _create(self, id_: int, value: tuple[str, str | None], *fields: str) -> None:
        body, pieces = plant(value, id_), self._pieces()
        await self._change(
            id_,
            request("POST", "/plants", self.token, body, JSON, *fields, pieces=pieces),
            lambda before: value if before is None else before,
            lambda before: before in (None, value),
        )

    async def change(self) -> None:
        """Replace or delete a plant if it is the expected one."""
        if known := self._expected():
            await self._change_if(*known)

    async def _change_if(self, id_: int, expected: Value, *fields: str) -> None:
        path, match = f"/plants/{id_}", f"If-Match: {etag(expected)}"
        after = self._chance.choice([None, self._value()])
        data = request("DELETE", path, self.token, None, match, *fields)
        if after is not None:
            data = request("PUT", path, self.token, plant(after), JSON, match, *fields)

        def fits(value: Value) -> bool:
            """Return whether the plant is the expected one, or the change is made already."""
            return value is not None and value in (expected, after)

        await self._change(id_, data, lambda value: after if fits(value) else value, fits)

    async def show(self) -> None:
        if not self._mine:
            return
        id_ = self._chance.choice(self._mine)
        response = await self._ask(request("GET", f"/plants/{id_}", self.token))
        if response.status in (200, 404):
            self._see_response(id_, response)

    def _see_response(self, id_: int, response: Response) -> None:
        found = json.loads(response.body) if response.status == 200 else None
        if found and found.get("id", id_) != id_:
            self._model.fail(f"{self.name}: the response for {id_} is {found}")
        self._model.see(self.name, id_, value_of(found))

    async def walk(self) -> None:
        """Follow the links from page to page: each plant of this client comes once."""
        known = {id_ for id_ in self._mine if self._model.is_known(id_)}
        limit = max(1, len(self._mine) // self._chance.choice([1, 4, 8]))
        path, found = f"/plants?limit={limit}&after={self._first - 1}", dict[int, Value]()
        while path:
            response = await self._ask(request("GET", path, self.token))
            if response.status != 200:
                return
            page = values_of(json.loads(response.body))
            if page.keys() & found.keys():
                self._model.fail(f"{self.name}: {path} has plants of an earlier page")
            found |= page
            link = re.search('<([^>]*)>; rel="next"', response.fields.get("link", ""))
            path = link[1] if link and max(page) < self._first + IDS_OF_A_CLIENT else ""
        self._see(dict.fromkeys(known) | found)

    def _see(self, plants: dict[int, Value]) -> None:
        for id_, value in plants.items():
            if self._first <= id_ < self._first + IDS_OF_A_CLIENT:
                self._model.see(self.name, id_, value)

    async def export(self) -> None:
        data = request("GET", "/plants.ndjson", self.token)
        response = await self._ask(data)
        if response.status == 200:
            plants = values_of(map(json.loads, response.body.splitlines()))
            self._see(plants)
            if self._model.feed_was_off:
                return
            number = int(response.fields["changes-after"])
            self._model.exports.append(Export(self.name, number, plants))
            response = await self._ask(request("GET", f"/changes?after={number}", self.token))
            if response.status in (400, 404, 410) and not self._model.feed_was_off:
                self._model.fail(f"{self.name}: after {number}: {response}")

    async def take_ids(self) -> None:
        for _ in range(4):
            await self._take_ids()
            await asyncio.sleep(self._chance.choice([0, 0.1]))

    async def _take_ids(self) -> None:
        count = self._chance.choice([1, 5, 100])
        response = await self._ask(request("POST", f"/ids?count={count}", self.token))
        if response.status == 200:
            ids = json.loads(response.body)
            self._model.hand_out(self.name, range(ids["first"], ids["last"] + 1))
            if ids["last"] - ids["first"] + 1 != count:
                self._model.fail(f"{self.name}: asked for {count} ids, got {ids}")

    async def burst(self) -> None:
        """Change plants that all clients change, several of them at the same time."""
        open_ = [Http(self._find_service(), self._chance) for _ in range(8)]
        sent = list[Operation]()
        for http in open_:
            sent.append(operation := self._draw())
            self._model.brief[operation.id].append(operation)
            await http.send(self._rendered(operation))
        for http, operation in zip(open_, sent, strict=True):
            response = await http.response()
            if response.status in (200, 201, 204, 400, 404, 412):
                tag = response.fields.get("etag", "") if response.status == 412 else ""
                history = self._model.brief[operation.id]
                history.remove(operation)
                answered = operation._replace(answered=self._loop.now, saw=_WILLOWS.get(tag))
                history.append(answered._replace(status=response.status))
            http.leave()

    def _draw(self) -> Operation:
        """Return a change of a plant that all clients change, without its response."""
        chance, now = self._chance, self._loop.now
        id_, method = chance.choice(BRIEF), chance.choice(["POST", "PUT", "DELETE"])
        wrote: Value = None if method == "DELETE" else chance.choice([*_WILLOWS.values()])
        condition = ALWAYS if method == "POST" else chance.choice([ALWAYS, *_WILLOWS.values()])
        return Operation(now, math.inf, id_, method, 0, wrote, condition=condition)

    def _rendered(self, operation: Operation) -> bytes:
        wrote, method, path = operation.wrote, operation.method, f"/plants/{operation.id}"
        if method == "POST":
            return request(method, "/plants", self.token, plant(wrote, operation.id), JSON)
        body = None if wrote is None else plant(wrote)
        fields = [] if operation.condition == ALWAYS else [f"If-Match: {etag(operation.condition)}"]
        return request(method, path, self.token, body, JSON, *fields)

    async def pipeline(self) -> None:
        """Send several requests at once that have no effect; each response is for its request."""
        chance, model = self._chance, self._model
        is_slow = chance.random() < 0.7
        http = Http(self._find_service(), chance, is_slow=is_slow, pauses=(0, 0.001, 0.003))
        ids = [chance.choice(self._mine) for _ in range(4) if self._mine]
        data = b""
        for id_ in ids:
            values = model.of(id_)
            if len(values) == 1 and None not in values and chance.random() < 0.5:
                body = plant(next(iter(values)), id_)
                data += request("POST", "/plants", self.token, body, JSON, pieces=self._pieces())
            else:
                data += request("GET", f"/plants/{id_}", self.token)
        await http.send(data)
        for id_ in ids:
            response = await http.response()
            if response.status in (200, 404):
                self._see_response(id_, response)
            elif response.status < 500:
                model.fail(f"{self.name}: {response}")
        http.leave()

    async def store_file(self) -> None:
        """Import rows, of which some are not valid, or have ids of stored plants or earlier rows.

        The import may be in a set, and be undone.
        """
        chance = self._chance
        is_csv = chance.random() < 0.5
        conflict = chance.choice(["refuse", "skip", "replace"])
        lines, values = [], [self._value(), self._value()]
        for id_ in self._ids():
            value = chance.choice([*values, *filter(None, self._model.of(id_))])
            row = _row(id_, value, conflict, is_csv=is_csv)
            lines.append(_BAD_ROW if chance.random() < 0.02 else row)
        form, first = ("csv", "id,name,tag\n") if is_csv else ("ndjson", "")
        name = self._new_set()
        fields = chance.choice([[], [f"Change-Set: {name}"]])
        path = f"/plants.{form}?on-conflict={conflict}"
        made = await self._send_lines(path, lines, first, *fields)
        if fields and made is not None:
            seen = {id_: {value for pair in pairs for value in pair} for id_, pairs in made.items()}
            with self._doubting(seen):
                await self._undo(name, made, seen)

    async def send_changes(self) -> None:
        """Send a list of changes of own plants and of new ones."""
        chance = self._chance
        lines, values = [], [self._value(), self._value()]
        for id_ in self._ids():
            before = chance.choice([*self._model.of(id_), *values])
            after = chance.choice([None, *values]) if before else values[0]
            lines.append(_swap(id_, before, after, is_any=chance.random() < 0.1))
        await self._send_lines("/changes?", lines)

    def _ids(self) -> list[int]:
        """Return ids of known plants, and of new ones. Some come twice."""
        chance = self._chance
        ids = [id_ for id_ in self._mine if self._model.is_known(id_)][-3:]
        ids += [next(self._fresh) for _ in range(chance.choice([1, 3, 40, 40, 300]))]
        ids += chance.choices(ids, k=len(ids) // 4)
        chance.shuffle(ids)
        return ids

    async def _send_lines(
        self, path: str, lines: Sequence["_Line"], first: str = "", *fields: str
    ) -> dict[int, list[tuple[Value, Value]]] | None:
        """Send lines behind a first one, perhaps after a dry run; compare what is told of each.

        Return what each plant was and is of all lines that changed it; None if that is not known.
        """
        chance, model = self._chance, self._model
        present = {line.id: one_of(model.of(line.id)) for line in lines}
        plan = _Plan(lines, present, 1 + bool(first))
        text = (first + "".join(line.text for line in lines)).encode()
        if chance.random() < 0.3:
            tried = request("POST", f"{path}&dry-run=true", self.token, text, pieces=self._pieces())
            self._compare(await self._ask(tried), plan)
        self._doubt_values(plan.afters)
        doubted = (self.name, plan.created(0, len(lines)))
        model.prefixes.append(doubted)
        if is_hasty := chance.random() < 0.3:
            pauses = (0, 0.001, 0.003)
            self._http = Http(self._find_service(), chance, is_slow=True, pauses=pauses)
        data = request("POST", path, self.token, text, *fields, pieces=self._pieces())
        response = await self._ask(data)
        if is_hasty:
            self._http = None
        self._compare(response, plan)
        end, is_doubtful = len(lines), False
        if response.status != 200:
            through = json.loads(response.body).get("lines_stored_through")
            is_doubtful, end = through is not None, max(0, (through or 0) - bool(first))
            if not is_doubtful and response.status >= 500 and not is_harmless(response):
                return None
        model.possible |= {
            id_: {value} for id_, value in (present | dict(plan.afters[:end])).items()
        }
        self._mine += [id_ for id_, _ in plan.created(0, end)[:5]]
        model.prefixes.remove(doubted)
        if is_doubtful:
            self._doubt_values(plan.afters[end:])
            model.prefixes.append((self.name, plan.created(end, len(lines))))
        return plan.made if response.status == 200 else None

    def _compare(self, response: Response, plan: "_Plan") -> None:
        """Compare what is told of each line with what the lines do."""
        if response.status != 200:
            return
        answer = json.loads(response.body)
        told = {name: answer[name] for name in _COUNTS & answer.keys() if answer[name]}
        if told != plan.counts or [each["line"] for each in answer["errors"]] != [*plan.refused]:
            self._model.fail(f"{self.name}: {answer}, expected {plan.counts} and {plan.refused}")
        for each in answer["errors"]:
            if "plant" in each and value_of(each["plant"]) != plan.refused.get(each["line"]):
                self._model.fail(f"{self.name}: {each}, expected {plan.refused}")

    def _doubt_values(self, afters: Iterable[tuple[int, Value]]) -> None:
        for id_, value in afters:
            self._model.possible[id_] = self._model.of(id_) | {value}

    def _new_set(self) -> str:
        name = f"{self.name.replace(' ', '-')}-{next(self._sets):09}"
        self._model.sets += [name, f"{name}-undo"]
        return name

    async def use_set(self) -> None:
        """Change plants in a set, and perhaps without it; undo the set, and perhaps the undo."""
        chance, model = self._chance, self._model
        name = self._new_set()
        field = f"Change-Set: {name}"
        made: dict[int, list[tuple[Value, Value]]] = {}
        seen: dict[int, set[Value]] = {}
        with self._doubting(seen):
            for _ in range(chance.choice([1, 2, 6])):
                known = [id_ for id_ in self._mine if model.is_known(id_)]
                id_ = chance.choice([*known[-3:], *made, next(self._fresh)])
                if id_ not in self._mine:
                    self._mine.append(id_)
                before = one_of(model.of(id_))
                seen.setdefault(id_, set()).add(before)
                is_in_set = chance.random() < 0.8
                fields = [field] if is_in_set else []
                if before is None:
                    await self._create(id_, self._value(), *fields)
                else:
                    await self._change_if(id_, before, *fields)
                seen[id_] |= model.of(id_)
                after = one_of(model.of(id_))
                if is_in_set and before != after:
                    made.setdefault(id_, []).append((before, after))
            await self._undo(name, made, seen)

    @contextlib.contextmanager
    def _doubting(self, seen: dict[int, set[Value]]) -> Iterator[None]:
        """Doubt the plants of a set if the block fails: an undo, or a change, may still run."""
        try:
            yield
        except (LostError, ConnectionRefusedError, LateError, _UnknownError):
            for id_, values in seen.items():
                self._model.possible[id_] = self._model.of(id_) | values
            self._mine = [id_ for id_ in self._mine if id_ not in seen]
            raise

    async def _undo(
        self,
        name: str,
        made: dict[int, list[tuple[Value, Value]]],
        seen: dict[int, set[Value]],
    ) -> None:
        """Undo a set of which all changes are known; perhaps after a dry run, perhaps twice."""
        model = self._model
        undone, counts = undo_of(made, {id_: one_of(model.of(id_)) for id_ in made})
        present = {id_: one_of(model.of(id_)) for id_ in seen}
        for query in self._chance.choice([["&dry-run", ""], [""], ["", ""]]):
            if not query:
                for id_ in undone:
                    model.possible[id_] = {*model.of(id_), undone[id_]}
            path = f"/undo?set={name}{query}"
            field = f"Change-Set: {name}-undo"
            response = await self._ask(request("POST", path, self.token, None, field))
            if not made and response.status == 404:
                return
            if response.status != 200 or model.feed_was_off:
                raise _UnknownError
            if json.loads(response.body) != counts:
                model.fail(f"{self.name}: {response.body!r}, expected {counts}")
        for id_ in undone:
            model.possible[id_] = {undone[id_]}
        changed = {
            id_: [(present[id_], after)] for id_, after in undone.items() if after != present[id_]
        }
        if changed and not name.endswith("-undo") and self._chance.random() < 0.4:
            model.sets.append(f"{name}-undo-undo")
            await self._undo(f"{name}-undo", changed, seen)

    async def disturb(self) -> None:
        """Send something that is no request, or several requests at once."""
        chance = self._chance
        http = Http(self._find_service(), chance, is_slow=chance.random() < 0.5)
        get = request("GET", "/plants?limit=1000", self.token)
        kinds = [b"\x00garbage\r\n\r\n", get[:-2], get + b"x", get * 5]
        kinds.append(request("POST", "/plants", self.token, b"{}", JSON) + get)
        kinds.append(request("POST", "/plants.csv", "x", b"1,2\n" * 30_000, pieces=9))
        data = chance.choice(kinds)
        await http.send(data)
        await asyncio.sleep(chance.choice([0, 0.1, 5]))
        if chance.random() < 0.7:
            statuses = [(await http.response()).status for _ in range(data.count(b"Host: x"))]
            self._loop.note(f"{self.name}: {statuses}")
        http.leave()

    def _pieces(self) -> int:
        return self._chance.choice([0, 0, 2, 30])


class _Line(NamedTuple):
    """A line of a body.

    Attributes:
        id: of the plant.
        text: of the line.
        decide: returns what becomes of the plant, and how the line is counted.

    """

    id: int
    text: str
    decide: Callable[[Value], tuple[Value, str]]


# A row that is not valid. No plant has its id.
_BAD_ROW = _Line(0, "x,y,z\n", lambda value: (value, "refused"))


def _row(id_: int, value: tuple[str, str | None], conflict: str, *, is_csv: bool) -> _Line:
    """Return a row of a file, under an id that another plant may have."""
    text = f"{id_},{value[0]},{value[1] or ''}" if is_csv else plant(value, id_).decode()

    def decide(old: Value) -> tuple[Value, str]:
        if old is None:
            return value, "stored"
        if old == value:
            return old, "already_stored"
        if conflict == "replace":
            return value, "replaced"
        return old, "skipped" if conflict == "skip" else "refused"

    return _Line(id_, f"{text}\n", decide)


def _swap(id_: int, before: Value, after: Value, *, is_any: bool) -> _Line:
    """Return a change to `after` if the plant is `before`, or if it may be anything."""
    states = {"after": after} if is_any else {"before": before, "after": after}
    members = [
        f'"{name}":{plant(value).decode() if value else "null"}' for name, value in states.items()
    ]

    def decide(old: Value) -> tuple[Value, str]:
        if old == after:
            return old, "already_stored"
        if old != before and not is_any:
            return old, "refused"
        if old is None:
            return after, "stored"
        return after, "deleted" if after is None else "replaced"

    return _Line(id_, f'{{"id":{id_},{",".join(members)}}}\n', decide)


class _Plan:
    """What lines do, one after the other.

    Attributes:
        afters: for each line, the id of its plant, and what the plant is afterwards.
        made: what the plants were and are of the lines that change them, by id.
        counts: the numbers of lines by their outcomes.
        refused: what the plants of the refused lines are, by the number of the line.

    """

    def __init__(self, lines: Sequence["_Line"], present: dict[int, Value], first: int) -> None:
        self._present = present
        self._uses = Counter(line.id for line in lines)
        now = dict(present)
        self.afters: list[tuple[int, Value]] = []
        self.made: dict[int, list[tuple[Value, Value]]] = {}
        self.counts = Counter[str]()
        self.refused: dict[int, Value] = {}
        for number, line in enumerate(lines, first):
            before = now[line.id]
            now[line.id], outcome = line.decide(before)
            self.afters.append((line.id, now[line.id]))
            self.counts[outcome] += 1
            if outcome == "refused":
                self.refused[number] = before
            elif now[line.id] != before:
                self.made.setdefault(line.id, []).append((before, now[line.id]))

    def created(self, begin: int, end: int) -> list[tuple[int, Value]]:
        """Return the plants that some lines create, and no other line changes."""
        return [
            (id_, value)
            for id_, value in self.afters[begin:end]
            if value is not None and self._present[id_] is None and self._uses[id_] == 1
        ]


class Follower(Actor):
    """A client that follows the feed, and connects again after each end."""

    def __init__(self, name: str, *arguments: Any) -> None:
        super().__init__(name, *arguments)
        self._after = 0
        self._got: list[Recorded] = []
        self._model.followed.append((self.name, 0, self._got))

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except (LostError, ConnectionRefusedError):
                await asyncio.sleep(self._chance.choice([0.01, 0.5]))

    async def _follow(self) -> None:
        http = Http(self._find_service(), self._chance, is_slow=self._chance.random() < 0.3)
        path = f"/changes?after={self._after}"
        await http.send(request("GET", path, self.token, None, "Accept: text/event-stream"))
        status = await http.status()
        if 400 <= status < 500 and not self._model.feed_was_off:
            self._model.fail(f"{self.name}: {status}")
        if status != 200:
            raise LostError
        held = b""
        since = self._after
        async for piece in http.pieces():
            if self._chance.random() < 0.05:
                http.leave()
                raise LostError
            events, end, held = (held + piece).rpartition(b"\n\n")
            for found in re.finditer(rb"id: (\d+)\nevent: (\w+)\ndata: (.*)\n", events + end):
                number = int(found[1])
                if found[2] != b"position" and number <= since:
                    self._model.fail(f"{self.name}: the change {number} comes again")
                since = number
                self._take(number, found[2].decode(), json.loads(found[3]))

    def _take(self, number: int, kind: str, data: dict[str, Any]) -> None:
        if kind != "position":
            found = data["plant"]
            change = Recorded(
                number, _KINDS[kind], 0, found["id"], found.get("name"), found.get("tag")
            )
            self._got.append(change)
            self._after = number
            self._loop.note(f"{self.name}: {number - 10**15}")


class Guest(Actor):
    """A client that only reads, and whose token is revoked."""

    async def run(self) -> None:
        while True:
            with contextlib.suppress(LostError, ConnectionRefusedError):
                http = Http(self._find_service(), self._chance)
                for _ in range(5):
                    await self._ask(http)
            await asyncio.sleep(0.1)

    async def _ask(self, http: Http) -> None:
        began = self._loop.now
        await http.send(request("GET", "/token", self.token))
        response = await http.response()
        if response.status == 200 and began > self._model.revoked_at + REVOKED_SECONDS:
            self._model.fail("guest: its token was revoked, and is accepted")
        await asyncio.sleep(self._chance.choice([0, 0.2, 0.2, 0.9]))


def is_harmless(response: Response) -> bool:
    """Return whether a response says that nothing was done."""
    return bool(re.search(r"nothing was done|no id was handed out", response.message))


def value_of(found: Any) -> Value:
    return None if found is None else (found["name"], found.get("tag"))


def values_of(plants: Iterable[Any]) -> dict[int, Value]:
    return {each["id"]: value_of(each) for each in plants}


def one_of(values: set[Value]) -> Value:
    """Return the only value."""
    if len(values) > 1:
        raise _UnknownError
    return next(iter(values))


def undo_of(
    made: dict[int, list[tuple[Value, Value]]], present: dict[int, Value]
) -> tuple[dict[int, Value], dict[str, Any]]:
    """Return the plants after the undo of a set with these changes, and its response."""
    undone: dict[int, Value] = {}
    counts: dict[str, Any] = dict.fromkeys(("restored", "deleted", "recreated", "kept"), 0)
    counts["kept_ids"] = []
    for id_, changes in sorted(made.items()):
        first, last = changes[0][0], changes[-1][1]
        is_intact = all(one[1] == two[0] for one, two in itertools.pairwise(changes))
        if present[id_] != first and not (is_intact and present[id_] == last):
            undone[id_] = present[id_]
            counts["kept"] += 1
            counts["kept_ids"].append(id_)
            continue
        undone[id_] = first
        kind = "recreated" if is_intact and last is None else "restored"
        counts["deleted" if first is None else kind] += 1
    return undone, counts


def plant(value: Value, id_: int | None = None) -> bytes:
    """Return the JSON text of a plant."""
    assert value is not None
    record = {} if id_ is None else {"id": id_}
    tag = {} if value[1] is None else {"tag": value[1]}
    return json.dumps(record | {"name": value[0]} | tag).encode()


def etag(value: Value) -> str:
    return entity_tag(*value) if value is not None else '"x"'
