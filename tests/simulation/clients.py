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
from dataclasses import dataclass, field
from typing import Any

from plantstore.changes import entity_tag
from plantstore.feed import Kind, Recorded
from plantstore.words import words_of
from simulation.http import Http, LateError, LostError, Response, request
from simulation.model import BRIEF, SHARED, Effect, Export, Model, Value
from simulation.scheduler import Loop
from simulation.service import Service
from support.histories import Operation

JSON = "Content-Type: application/json"

NOTHING_DONE = re.compile(r"nothing was done|no id was handed out")

# Ids of the plants of different clients. Those that are handed out are greater.
IDS_OF_A_CLIENT = 1_000_000

# A revocation takes effect within this time.
REVOKED_SECONDS = 2.0

_KINDS = {kind.name.lower(): kind for kind in Kind}


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
        self._names = (f"Quercus {number}-{count}" for count in itertools.count())
        self._http: Http | None = None

    async def run(self, actions: int) -> None:
        """Act so many times."""
        chance = self._chance
        self._http = None
        acts = [self.create] * 4 + [self.replace, self.delete, self.show]
        acts += [self.create_again, self.store_file, self.store_file, self.export, self.take_ids]
        acts += [self.disturb, self.pipeline, self.contend, self.burst]
        acts += [self.send_changes, self.send_changes, self.use_set, self.use_set]
        acts += [self.create_new, self.patch, self.walk, self.search, self.count_tags]
        acts += [self.store_again, self.store_again]
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
        self, id_: int, data: bytes, effect: Effect, settle: Callable[[Response], bool]
    ) -> None:
        """Send a change. Unless its result is known, it may or may not be made."""
        before = self._model.of(id_)
        self._model.doubt(id_, effect)
        response = await self._ask(data)
        if NOTHING_DONE.search(response.message) or response.status in (401, 408, 429):
            self._model.possible[id_] = before
            return
        doubted, self._model.possible[id_] = self._model.of(id_), before
        if not settle(response):
            self._model.possible[id_] = doubted

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

    async def create_new(self) -> None:
        """Put a plant where none is expected."""
        fresh = next(self._fresh)
        id_ = self._chance.choice([fresh, *self._mine[-3:]])
        if id_ == fresh:
            self._mine.append(id_)
        after = self._value()

        def settle(response: Response) -> bool:
            if response.status == 201:
                self._model.settle(
                    self.name, id_, lambda before: before in (None, after), lambda _: after
                )
            elif response.status == 412:
                self._model.settle(self.name, id_, lambda before: before is not None, same)
            return response.status in (201, 412)

        await self._change(
            id_,
            request("PUT", f"/plants/{id_}", self.token, plant(after), JSON, "If-None-Match: *"),
            lambda before: after if before is None else before,
            settle,
        )

    async def patch(self) -> None:
        """Change the tag of a plant if it is the expected one."""
        if (known := self._expected()) is None:
            return
        (id_, expected), tag = known, self._chance.choice([None, "Fagaceae"])
        fields = "Content-Type: application/merge-patch+json", f"If-Match: {etag(expected)}"
        body = json.dumps({"tag": tag}).encode()
        data = request("PATCH", f"/plants/{id_}", self.token, body, *fields)
        await self._change_if(id_, 200, expected, lambda value: value and (value[0], tag), data)

    async def create_again(self) -> None:
        """Create a plant under an id that may be taken, with the same value or another."""
        if self._mine:
            id_ = self._chance.choice(self._mine)
            values = [value for value in self._model.of(id_) if value is not None]
            await self._create(id_, self._chance.choice([*values, self._value()]))

    async def _create(self, id_: int, value: tuple[str, str | None], *fields: str) -> None:
        def settle(response: Response) -> bool:
            if response.status == 200:
                self._model.settle(
                    self.name, id_, lambda before: before in (None, value), lambda _: value
                )
            elif response.status == 400:
                self._model.settle(self.name, id_, lambda before: before not in (None, value), same)
            return response.status in (200, 400)

        body = plant(value, id_)
        await self._change(
            id_,
            request("POST", "/plants", self.token, body, JSON, *fields, pieces=self._pieces()),
            lambda before: value if before is None else before,
            settle,
        )

    async def replace(self) -> None:
        """Replace a plant if it is the expected one."""
        if known := self._expected():
            await self._replace(*known)

    async def delete(self) -> None:
        """Delete a plant if it is the expected one."""
        if known := self._expected():
            await self._delete(*known)

    async def _replace(self, id_: int, expected: Value, *fields: str) -> None:
        after, match = self._value(), f"If-Match: {etag(expected)}"
        data = request("PUT", f"/plants/{id_}", self.token, plant(after), JSON, match, *fields)
        await self._change_if(id_, 200, expected, lambda _: after, data)

    async def _delete(self, id_: int, expected: Value, *fields: str) -> None:
        match = f"If-Match: {etag(expected)}"
        data = request("DELETE", f"/plants/{id_}", self.token, None, match, *fields)
        await self._change_if(id_, 204, expected, lambda _: None, data)

    async def _change_if(
        self, id_: int, made: int, expected: Value, effect: Effect, data: bytes
    ) -> None:
        def is_permitted(value: Value) -> bool:
            """Return whether the plant is the expected one, or the change is made already."""
            return value is not None and value in (expected, effect(value))

        def settle(response: Response) -> bool:
            if response.status == made:
                self._model.settle(self.name, id_, is_permitted, effect)
            elif response.status == 412:
                self._model.settle(self.name, id_, lambda value: not is_permitted(value), same)
            return response.status in (made, 412)

        await self._change(
            id_,
            data,
            lambda value: effect(value) if is_permitted(value) else value,
            settle,
        )

    async def show(self) -> None:
        if not self._mine:
            return
        id_ = self._chance.choice(self._mine)
        response = await self._ask(request("GET", f"/plants/{id_}", self.token))
        if response.status == 200:
            found = json.loads(response.body)
            self._model.see(self.name, id_, (found["name"], found.get("tag")))
        elif response.status == 404:
            self._model.see(self.name, id_, None)

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
        self._see(found)
        self._see_all(known, found)

    def _see_all(self, known: set[int], found: dict[int, Value]) -> None:
        """Check that all known plants, which nobody else changes, were found."""
        for id_ in known:
            self._model.see(self.name, id_, found.get(id_))

    async def search(self) -> None:
        """Search for plants of which this client knows some."""
        word = self._chance.choice(["abies 1", "carex", "carex 9", "quercus"])
        matches = {
            id_
            for id_ in self._mine
            if self._model.is_known(id_)
            and (value := one_of(self._model.of(id_)))
            and is_found(value[0], word)
        }
        query = f"/plants?limit=1000&q={word.replace(' ', '+')}"
        response = await self._ask(request("GET", query, self.token))
        if response.status == 200:
            plants = values_of(json.loads(response.body))
            if not all(value and is_found(value[0], word) for value in plants.values()):
                self._model.fail(f"{self.name}: {word} finds {plants}")
            self._see(plants)
            if "link" not in response.fields:
                self._see_all(matches, plants)

    async def count_tags(self) -> None:
        """List the tags: each has at least the plants that this client knows."""
        own = Counter(
            value[1]
            for id_ in self._mine
            if self._model.is_known(id_) and (value := one_of(self._model.of(id_)))
        )
        response = await self._ask(request("GET", "/tags", self.token))
        if response.status == 200:
            counts = {each["tag"]: each["plants"] for each in json.loads(response.body)}
            if any(counts.get(tag, 0) < count for tag, count in own.items() if tag):
                self._model.fail(f"{self.name}: {counts} for {own}")

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

    async def contend(self) -> None:
        """Replace a plant that all clients replace, if it is as it was read."""
        path = f"/plants/{SHARED}"
        for _ in range(4):
            found = await self._ask(request("GET", path, self.token))
            name = next(self._names)
            if found.status == 404:
                data = plant((name, None), SHARED)
                await self._ask(request("POST", "/plants", self.token, data, JSON))
            elif found.status == 200:
                before = json.loads(found.body)["name"]
                fields = JSON, f"If-Match: {etag((before, None))}"
                put = request("PUT", path, self.token, plant((name, None)), *fields)
                response = await self._ask(put)
                if response.status == 200:
                    self._model.replace(self.name, before)

    async def burst(self) -> None:
        """Create and delete plants that all clients share, at the same time: see the feed."""
        chance = self._chance
        open_ = [Http(self._find_service(), chance) for _ in range(8)]
        sent = list[tuple[float, int, Value]]()
        for http in open_:
            id_, value = chance.choice(BRIEF), None
            data = request("DELETE", f"/plants/{id_}", self.token)
            if chance.random() < 0.5:
                value = (f"Salix {chance.randrange(3)}", None)
                data = request("POST", "/plants", self.token, plant(value, id_), JSON)
            sent.append((self._loop.now, id_, value))
            await http.send(data)
        unknown = [
            Operation(at, math.inf, id_, "DELETE" if value is None else "POST", 0, value)
            for at, id_, value in sent
        ]
        for operation in unknown:
            self._model.brief[operation.id].append(operation)
        for http, operation in zip(open_, unknown, strict=True):
            status = (await http.response()).status
            if status in (200, 204, 400, 404):
                history = self._model.brief[operation.id]
                history.remove(operation)
                history.append(operation._replace(answered=self._loop.now, status=status))
            http.leave()

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
            if response.status == 200:
                found = json.loads(response.body)
                if found.get("id", id_) != id_:
                    model.fail(f"{self.name}: the response for {id_} is {found}")
                model.see(self.name, id_, (found["name"], found.get("tag")))
            elif response.status == 404:
                model.see(self.name, id_, None)
            elif response.status < 500:
                model.fail(f"{self.name}: {response}")
        http.leave()

    async def store_file(self) -> None:
        """Import rows under new ids, perhaps after a dry run; some of them may be invalid.

        The import may be in a set, and be undone.
        """
        chance, model = self._chance, self._model
        file = self._file()
        name = f"{self.name.replace(' ', '-')}-{next(self._sets):09}"
        fields = chance.choice([[], [f"Change-Set: {name}"]])
        model.sets += [name, f"{name}-undo"]
        if chance.random() < 0.3:
            await self._try_file(file)
        for id_, value in file.rows:
            model.possible[id_] = {None, value}
        doubted = (self.name, file.rows)
        model.prefixes.append(doubted)
        text, pieces = file.text.encode(), self._pieces()
        data = request("POST", "/plants.csv", self.token, text, *fields, pieces=pieces)
        if is_hasty := chance.random() < 0.6:
            pauses = (0, 0.001, 0.003)
            self._http = Http(self._find_service(), chance, is_slow=True, pauses=pauses)
        response = await self._ask(data)
        if is_hasty:
            self._http = None
        if response.status == 200:
            self._compare(file, json.loads(response.body))
            self._settle_rows(file.rows, len(file.rows))
            model.prefixes.remove(doubted)
            if fields:
                await self._undo_file(name, file.rows)
        elif "lines_stored_through" in (answer := json.loads(response.body)):
            stored = sum(last <= answer["lines_stored_through"] for last in file.last_lines)
            self._settle_rows(file.rows, stored)
            file.rows[:] = file.rows[stored:]
        elif response.status < 500 or NOTHING_DONE.search(response.message):
            for id_, _ in file.rows:
                model.possible[id_] = {None}
            model.prefixes.remove(doubted)

    async def _try_file(self, file: "_File") -> None:
        body, path = file.text.encode(), "/plants.csv?dry-run=true"
        tried = await self._ask(request("POST", path, self.token, body, pieces=self._pieces()))
        if tried.status == 200:
            self._compare(file, json.loads(tried.body))

    async def _undo_file(self, name: str, rows: Sequence[tuple[int, Value]]) -> None:
        made: dict[int, list[tuple[Value, Value]]] = {id_: [(None, value)] for id_, value in rows}
        seen: dict[int, set[Value]] = {id_: {None, value} for id_, value in rows}
        with self._doubting(seen):
            await self._undo(name, made, seen)

    def _file(self) -> "_File":
        chance = self._chance
        line_end = chance.choice(["\n", "\r\n"])
        file, line = _File(f"id,name,tag{line_end}"), 1
        names = chance.choice([["Carex"], ["Carex", "Cárex 木", 'Cárex "x", ', "Carex\n"]])
        for _ in range(chance.choice([1, 3, 3, 40, 40, 300])):
            if chance.random() < 0.02:
                file.text += f"x,y,z{line_end}"
                line += 1
                file.bad_lines.append(line)
                continue
            id_, tag = next(self._fresh), chance.choice("ab")
            name = f"{chance.choice(names)} {chance.randrange(99)}"
            file.rows.append((id_, (name, tag)))
            quoted = name if name.startswith("Carex ") else '"' + name.replace('"', '""') + '"'
            file.text += f"{id_},{quoted},{tag}{line_end}"
            line += 1 + name.count("\n")
            file.last_lines.append(line)
        return file

    def _compare(self, file: "_File", counts: dict[str, Any]) -> None:
        refused = [error["line"] for error in counts["errors"]]
        expected = (len(file.rows), len(file.bad_lines), file.bad_lines, False)
        if (counts["stored"], counts["refused"], refused, "warnings" in counts) != expected:
            self._model.fail(f"{self.name}: {counts}, expected {expected}")

    def _settle_rows(self, rows: Sequence[tuple[int, Value]], count: int) -> None:
        for id_, value in rows[:count]:
            self._model.possible[id_] = {value}
        self._mine += [id_ for id_, _ in rows[: min(5, count)]]

    async def store_again(self) -> None:
        """Import rows of which some have stored ids, or the ids of earlier rows."""
        chance, model = self._chance, self._model
        known = [id_ for id_ in self._mine if model.is_known(id_)][-3:]
        ids = [*known, next(self._fresh), next(self._fresh)]
        self._mine += ids[len(known) :]
        conflict, end = chance.choice(["refuse", "skip", "replace"]), {}
        plants = {id_: one_of(model.of(id_)) for id_ in ids}
        states, counts, refused = [plants], Counter[str](), []
        text = ""
        for line in range(1, chance.choice([2, 10, 60])):
            id_ = chance.choice(ids)
            old = states[-1][id_]
            value = chance.choice([old or self._value(), self._value()])
            text += json.dumps({"id": id_} | json.loads(plant(value))) + "\n"
            replaces = old is None or conflict == "replace"
            states.append(states[-1] | ({id_: value} if replaces else {}))
            if old is not None and old != value and conflict == "refuse":
                refused.append(line)
            elif old is None or old == value or replaces:
                counts[
                    "stored" if old is None else "already_stored" if old == value else "replaced"
                ] += 1
            else:
                counts["skipped"] += 1
        for id_ in ids:
            model.possible[id_] = {state[id_] for state in states}
        path = f"/plants.ndjson?on-conflict={conflict}"
        data = request("POST", path, self.token, text.encode(), pieces=self._pieces())
        response = await self._ask(data)
        answer = json.loads(response.body)
        if response.status == 200:
            end = states[-1]
            names = ("stored", "already_stored", "replaced", "skipped")
            got = {name: answer[name] for name in names}, [e["line"] for e in answer["errors"]]
            if got != ({name: counts[name] for name in names}, refused):
                model.fail(f"{self.name}: {answer}, expected {counts} and {refused}")
        elif "lines_stored_through" in answer:
            end = states[answer["lines_stored_through"]]
        elif response.status < 500 or NOTHING_DONE.search(response.message):
            end = plants
        model.possible |= {id_: {value} for id_, value in end.items()}

    async def send_changes(self) -> None:
        """Send a list of changes of own plants and of new ones, perhaps after a dry run."""
        chance, model = self._chance, self._model
        lines = [self._line() for _ in range(chance.choice([1, 3, 40, 40, 700]))]
        body = b"".join(line.text() for line in lines)
        known = {line.id: model.of(line.id) for line in lines}
        if chance.random() < 0.3:
            path, pieces = "/changes?dry-run=true", self._pieces()
            tried = await self._ask(request("POST", path, self.token, body, pieces=pieces))
            if tried.status == 200:
                self._settle_lines(lines, json.loads(tried.body))
                model.possible |= known
        for line in lines:
            model.doubt(line.id, line.effect)
        fresh = [(line.id, line.after) for line in lines if line.is_new]
        doubted = (self.name, fresh)
        model.prefixes.append(doubted)
        data = request("POST", "/changes", self.token, body, pieces=self._pieces())
        response = await self._ask(data)
        answer = json.loads(response.body)
        stored = answer.get("lines_stored_through")
        if response.status == 200:
            model.possible |= known
            self._settle_lines(lines, answer)
            model.prefixes.remove(doubted)
            self._mine += [id_ for id_, _ in fresh[:5]]
        elif stored is not None:
            # The lines up to this one are decided, and the others are in doubt.
            model.possible |= known
            for line in lines[:stored]:
                model.possible[line.id] = {line.effect(value) for value in model.of(line.id)}
            for line in lines[stored:]:
                model.doubt(line.id, line.effect)
        elif response.status < 500 or NOTHING_DONE.search(response.message):
            model.possible |= known
            model.prefixes.remove(doubted)

    def _line(self) -> "_Line":
        """Return a change that may be refused, or made already."""
        chance = self._chance
        after = chance.choice([None, self._value()])
        if not self._mine or chance.random() < 0.3:
            return _Line(next(self._fresh), None, self._value(), is_new=True)
        id_ = chance.choice(self._mine)
        before = chance.choice([*self._model.of(id_), ("another", None)])
        if before is None and after is None:
            after = self._value()
        is_any = chance.random() < 0.1
        return _Line(id_, before, after, is_any=is_any)

    def _settle_lines(self, lines: Sequence["_Line"], answer: dict[str, Any]) -> None:
        """Compare the outcome of each line with what the plants may have been."""
        refused = {error["line"]: error for error in answer["errors"]}
        for number, line in enumerate(lines, 1):
            error = refused.get(number)
            fits = line.is_made if error is None else line.is_refused
            self._model.settle(self.name, line.id, fits, line.effect)
            if error is not None and "plant" in error:
                found = error["plant"]
                value = None if found is None else (found["name"], found.get("tag"))
                self._model.see(self.name, line.id, value)
        counts = {
            name: answer[name] for name in ("stored", "already_stored", "replaced", "deleted")
        }
        if len(refused) != answer["refused"] or sum(counts.values()) != len(lines) - len(refused):
            self._model.fail(f"{self.name}: {answer} for {len(lines)} lines")

    async def use_set(self) -> None:
        """Change plants in a set, and perhaps without it; undo the set, and perhaps the undo."""
        chance, model = self._chance, self._model
        name = f"{self.name.replace(' ', '-')}-{next(self._sets):09}"
        field = f"Change-Set: {name}"
        made: dict[int, list[tuple[Value, Value]]] = {}
        seen: dict[int, set[Value]] = {}
        model.sets += [name, f"{name}-undo"]
        with self._doubting(seen):
            for _ in range(chance.choice([1, 2, 6])):
                known = [id_ for id_ in self._mine if model.is_known(id_)]
                id_ = chance.choice([*known[-3:], *made, next(self._fresh)])
                if id_ not in self._mine:
                    self._mine.append(id_)
                before = one_of(model.of(id_))
                seen.setdefault(id_, set()).add(before)
                is_in_set = chance.random() < 0.8
                await self._change_once(id_, before, *([field] if is_in_set else []))
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

    async def _change_once(self, id_: int, before: Value, *fields: str) -> None:
        """Create, replace or delete a plant, whose value is known."""
        if before is None:
            await self._create(id_, self._value(), *fields)
        elif self._chance.random() < 0.5:
            await self._delete(id_, before, *fields)
        else:
            await self._replace(id_, before, *fields)

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


@dataclass
class _Line:
    """A line of a list of changes.

    Attributes:
        id: of the plant.
        before: what the plant must be, unless it may be anything.
        after: what the plant is afterwards.
        is_any: whether the plant may be anything.
        is_new: whether nothing else changes the plant.

    """

    id: int
    before: Value
    after: Value
    is_any: bool = False
    is_new: bool = False

    def text(self) -> bytes:
        after = b"null" if self.after is None else plant(self.after)
        before = b"null" if self.before is None else plant(self.before)
        condition = b"" if self.is_any else b'"before":%b,' % before
        return b'{"id":%d,%b"after":%b}\n' % (self.id, condition, after)

    def is_made(self, value: Value) -> bool:
        return self.is_any or value in (self.before, self.after)

    def is_refused(self, value: Value) -> bool:
        return not self.is_made(value)

    def effect(self, value: Value) -> Value:
        return self.after if self.is_made(value) else value


@dataclass
class _File:
    """A file of plants.

    Attributes:
        text: of the file.
        rows: its valid rows.
        last_lines: the line on which each of them ends.
        bad_lines: the lines of the other rows.

    """

    text: str
    rows: list[tuple[int, Value]] = field(default_factory=list)
    last_lines: list[int] = field(default_factory=list)
    bad_lines: list[int] = field(default_factory=list)


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


def values_of(plants: Iterable[Any]) -> dict[int, Value]:
    return {each["id"]: (each["name"], each.get("tag")) for each in plants}


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


def is_found(name: str, query: str) -> bool:
    """Return whether a search finds a name."""
    return all(any(each.startswith(word) for each in words_of(name)) for word in query.split())


def same(value: Value) -> Value:
    return value


def plant(value: Value, id_: int | None = None) -> bytes:
    """Return the JSON text of a plant."""
    assert value is not None
    record = {} if id_ is None else {"id": id_}
    tag = {} if value[1] is None else {"tag": value[1]}
    return json.dumps(record | {"name": value[0]} | tag).encode()


def etag(value: Value) -> str:
    return entity_tag(*value) if value is not None else '"x"'
