"""What does the feed of changes cost, and how soon does a follower get a change?

The services are measured alternately, with and without the feed, or with and without followers,
each on an empty database. Each ratio is the median of the ratios of the rounds.
"""

import contextlib
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from harness import (
    HERE,
    Server,
    free_port,
    loading,
    make_token,
    plantstore,
    running,
    spread,
    table,
    write_result,
    wrk,
)
from plantstore.storage import open_store
from support.postgres import Databases, programs
from support.postgres import Server as PostgresServer

ROUNDS = 11
SECONDS = 3
CONNECTIONS = 64
FOLLOWERS = 50
IDLE_FOLLOWERS = 1_000
EVENTS = 100
ROWS = 200_000
INSTANCES = 3

NewDatabase = Callable[[], Path | str]


@contextlib.contextmanager
def serving(database: Path | str, *options: str) -> Iterator[Server]:
    port = free_port()
    with running([*plantstore(database, port), *options], port, make_token_for(database)) as server:
        yield server


def make_token_for(database: Path | str) -> str:
    scopes = ("plants:create", "plants:read", "changes:read")
    name = f"benchmark {time.monotonic_ns()}"
    return make_token(database, name, *(part for scope in scopes for part in ("--scope", scope)))


@contextlib.contextmanager
def following(server: Server, number: int) -> Iterator[None]:
    command = [sys.executable, str(HERE / "followers.py"), str(server.port), server.token]
    with subprocess.Popen(
        [*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        assert process.poll() is None, "a follower has ended"
        process.stdin.close()


def creates(database: Path | str, days: int, *, followers: int = 0, instances: int = 1) -> float:
    """Return the creates per second of all instances on a database."""
    options = ("--changes-keep", str(days))
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(database, *options)) for _ in range(instances)]
        for server in servers:
            wrk(server, CONNECTIONS, 1, first_id=10**12)
        if followers:
            stack.enter_context(following(servers[0], followers))
        loads = [
            stack.enter_context(loading(server, CONNECTIONS, SECONDS, first_id=number * 10**13))
            for number, server in enumerate(servers)
        ]
        rate = sum(load().rate for load in loads)
    print(f"{days} days, {followers} followers, {instances}: {rate:,.0f}/s", file=sys.stderr)
    return rate


def alternated(new: NewDatabase, with_: dict[str, int], without: dict[str, int]) -> str:
    ratios = []
    for number in range(ROUNDS):
        both = [with_, without] if number % 2 else [without, with_]
        rates = {id(each): creates(new(), **each) for each in both}
        ratios.append(rates[id(with_)] / rates[id(without)])
    return spread(ratios)


def imported(folder: Path, file: Path, days: int) -> float:
    """Return the rows per second of `plantstore import`."""
    database = folder / f"{time.monotonic_ns()}.db"
    with contextlib.closing(open_store(f"sqlite:///{database}")) as store:
        store.keep_changes(days)
    command = [sys.executable, "-m", "plantstore", "import", str(file)]
    began = time.perf_counter()
    subprocess.run([*command, "--database", f"sqlite:///{database}"], check=True)
    return ROWS / (time.perf_counter() - began)


def imports(folder: Path) -> str:
    file = folder / "plants.csv"
    rows = (f"{id_},Abies balsamea (L.) Mill. {id_},Genus {id_ % 500}\n" for id_ in range(ROWS))
    file.write_text("id,name,tag\n" + "".join(rows), encoding="utf-8")
    ratios = []
    for number in range(ROUNDS):
        order = (7, 0) if number % 2 else (0, 7)
        rates = {days: imported(folder, file, days) for days in order}
        ratios.append(rates[7] / rates[0])
    return spread(ratios)


def delays_ms(server: Server) -> list[float]:
    """Return the times from the answer of a create to its event, of an idle service."""
    headers = {"Authorization": f"Bearer {server.token}"}
    client = http.client.HTTPConnection("127.0.0.1", server.port)
    follower = http.client.HTTPConnection("127.0.0.1", server.port)
    follower.request("GET", "/changes?after=now", None, headers | {"Accept": "text/event-stream"})
    stream = follower.getresponse()
    delays = []
    for id_ in range(EVENTS):
        time.sleep(0.1)
        body = json.dumps({"id": id_, "name": "a"})
        client.request("POST", "/plants", body, headers | {"Content-Type": "application/json"})
        client.getresponse().read()
        began = time.perf_counter()
        while not stream.readline().startswith(b"event: created"):
            pass
        delays.append(1000 * (time.perf_counter() - began))
    return delays


def memory_mib(server: Server) -> float:
    """Return the memory of idle followers. A token may have 1,125 of them."""
    with following(server, 1):
        before = server.resident_mib()
        with following(server, IDLE_FOLLOWERS):
            time.sleep(1)
            return server.resident_mib() - before


def main() -> None:
    feed, off = {"days": 7}, {"days": 0}
    with (
        tempfile.TemporaryDirectory() as path,
        programs() as found,
        PostgresServer(found, "changes", max_connections="200") as postgres,
        Databases(postgres.url()) as databases,
    ):
        folder = Path(path)

        def new_file() -> Path:
            return folder / f"{time.monotonic_ns()}.db"

        rows = [
            ["creates/s ÷ without the feed, SQLite", alternated(new_file, feed, off), "≥ 0.9"],
            ["creates/s ÷ without, PostgreSQL", alternated(databases.new, feed, off), "≥ 0.85"],
        ]
        three = {"instances": INSTANCES}
        ratio = alternated(databases.new, feed | three, off | three)
        rows.append([f"creates/s ÷ without, PostgreSQL, {INSTANCES} instances", ratio, ""])
        followed = feed | {"followers": FOLLOWERS}
        for name, new in (("SQLite", new_file), ("PostgreSQL", databases.new)):
            ratio = alternated(new, followed, feed)
            rows.append([f"creates/s with {FOLLOWERS} followers ÷ none, {name}", ratio, "≥ 0.7"])
        for name, new in (("SQLite", new_file), ("PostgreSQL", databases.new)):
            with serving(new()) as server:
                delay = f"{median(delays_ms(server)):.1f} ms"
            rows.append([f"p50 from the answer to the event, {name}", delay, "≤ 20 ms"])
        with serving(new_file()) as server:
            memory = f"{memory_mib(server):.1f} MiB"
        rows.append([f"memory of {IDLE_FOLLOWERS} idle followers", memory, "≤ 30 MB"])
        rows.append(["rows/s of an import ÷ without, SQLite", imports(folder), "≥ 0.8"])
        text = (
            f"# The feed of changes\n\n{table(['figure', 'measured', 'bar'], rows)}\n\n"
            f"Creates with {CONNECTIONS} connections, for each instance. Ratios are medians of"
            f" {ROUNDS} rounds, with the least and the greatest."
        )
        write_result("changes", text)


if __name__ == "__main__":
    main()
