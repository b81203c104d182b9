"""How fast are durable creates on PostgreSQL, compared with SQLite and with one commit per request?

The servers are measured alternately, each on an empty database, and each ratio is the median of
the ratios of the rounds. PostgreSQL is the server of the tests, with its default settings: it
syncs each commit.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import psycopg

from harness import (
    HERE,
    Load,
    free_port,
    loading,
    make_token,
    plantstore,
    running,
    script,
    spread,
    table,
    write_result,
    wrk,
)
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from support.postgres import Databases, Server, execute, programs

ROUNDS = 5
SECONDS = 5
ROUND_TRIP_MS = 2
STORED_ALONE = 400_000

SQLITE = "SQLite"
POSTGRES = "PostgreSQL"
TWO = "PostgreSQL, two instances"
WORKERS = "PostgreSQL, --workers 2"
FAR = f"PostgreSQL, {ROUND_TRIP_MS} ms away"
REPLICATED = "PostgreSQL, a synchronous standby"
INSISTING = f"{REPLICATED}, --standbys-min 1"
# The arguments of each_by_itself.py. By default a pool of psycopg has 4 connections.
EACH = {
    "one commit per request, pool of 4": ("async", "4"),
    "one commit per request, pool of 16": ("async", "16"),
    "one commit per request, pool of 16, threads": ("thread", "16"),
}
MEASURED = [
    *((64, server) for server in (SQLITE, POSTGRES, TWO, WORKERS, *EACH, REPLICATED, INSISTING)),
    *((256, server) for server in (SQLITE, POSTGRES, WORKERS, FAR)),
]


@contextlib.contextmanager
def far(server: Server) -> Iterator[int]:
    """Yield the port of a proxy to the server that adds the round-trip time."""
    port = free_port()
    command = [
        sys.executable,
        str(HERE / "delay.py"),
        str(port),
        str(server.port),
        str(ROUND_TRIP_MS),
    ]
    with subprocess.Popen(command) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(psycopg.OperationalError):
                    psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres").close()
                    break
                if time.monotonic() > deadline:
                    raise RuntimeError("the proxy did not start")
            yield port
        finally:
            process.terminate()


def round_trip_ms(port: int) -> float:
    with psycopg.connect(f"postgresql://postgres@127.0.0.1:{port}/postgres") as connection:
        times = []
        for _ in range(50):
            begin = time.perf_counter()
            connection.execute("SELECT 1")
            times.append(1000 * (time.perf_counter() - begin))
    return median(times)


def measure(name: str, connections: int, databases: Databases, far_port: int) -> Load:
    with tempfile.TemporaryDirectory() as folder:
        database: Path | str = Path(folder) / "plants.db" if name == SQLITE else databases.new()
        token, port = make_token(database), free_port()
        if name == TWO:
            return measure_two(str(database), token)
        if name == FAR:
            near_port = databases.url.rsplit(":", 1)[1].partition("/")[0]
            database = str(database).replace(f":{near_port}/", f":{far_port}/")
        command = plantstore(database, port)
        if name == WORKERS:
            command += ["--workers", "2"]
        if name == INSISTING:
            command += ["--standbys-min", "1"]
        if name in EACH:
            command = [*script("each_by_itself.py", database, port), *EACH[name]]
        with running(command, port, token) as server:
            wrk(server, connections, 1, first_id=10**12)
            return wrk(server, connections, SECONDS)


def measure_alone(server: Server, databases: Databases, batch: int) -> list[str]:
    """Store plants without the service, on one connection; return a row of the table."""
    database = databases.new()
    plants = [
        NewPlant(id_, f"Abies balsamea (L.) Mill. {id_}", "Abies") for id_ in range(STORED_ALONE)
    ]
    with contextlib.closing(open_store(database)) as store:
        [[before]] = server.execute("SELECT pg_current_wal_lsn()")
        begin = time.perf_counter()
        for start in range(0, STORED_ALONE, batch):
            store.apply_changes(plants[start : start + batch])
        seconds = time.perf_counter() - begin
    [[log_bytes]] = server.execute(f"SELECT pg_current_wal_lsn() - '{before}'::pg_lsn")
    [[table_bytes, index_bytes]] = execute(
        database, "SELECT pg_relation_size('plants'), pg_indexes_size('plants')"
    )
    return [
        str(batch),
        f"{STORED_ALONE / seconds:,.0f}",
        f"{table_bytes / STORED_ALONE:.0f}",
        f"{index_bytes / STORED_ALONE:.0f}",
        f"{int(log_bytes) / STORED_ALONE:.0f}",
    ]


def measure_two(database: str, token: str) -> Load:
    """Load two instances at the same time, each with half of the connections; return the sum."""
    with contextlib.ExitStack() as stack:
        ports = [free_port(), free_port()]
        servers = [
            stack.enter_context(running(plantstore(database, port), port, token)) for port in ports
        ]
        for seconds, first_id in ((1, 10**13), (SECONDS, 0)):
            with (
                loading(servers[0], 32, seconds, first_id=first_id) as one,
                loading(servers[1], 32, seconds, first_id=first_id + 10**12) as another,
            ):
                loads = [one(), another()]
    return Load(
        requests=sum(load.requests for load in loads),
        failed=sum(load.failed for load in loads),
        seconds=max(load.seconds for load in loads),
        p50_ms=max(load.p50_ms for load in loads),
        p99_ms=max(load.p99_ms for load in loads),
        max_ms=max(load.max_ms for load in loads),
    )


def main() -> None:
    loads: dict[tuple[int, str], list[Load]] = {}
    with (
        programs() as found,
        Server(found, "benchmark") as server,
        Databases(server.url()) as databases,
        far(server) as far_port,
        Server(found, "replicated") as replicated,
        replicated.standby("follower"),
        Databases(replicated.url()) as replicated_databases,
    ):
        replicated.wait_for_standby("follower")
        distance = round_trip_ms(far_port) - round_trip_ms(server.port)
        for _ in range(ROUNDS):
            for connections, name in MEASURED:
                chosen = replicated_databases if name in (REPLICATED, INSISTING) else databases
                load = measure(name, connections, chosen, far_port)
                loads.setdefault((connections, name), []).append(load)
        alone = [measure_alone(server, databases, batch) for batch in (64, 1000)]

    rows = [
        [
            name,
            str(connections),
            f"{median([load.rate for load in seen]):,.0f}",
            f"{median([load.p50_ms for load in seen]):.2f}",
            f"{median([load.p99_ms for load in seen]):.2f}",
            str(sum(load.failed for load in seen)),
        ]
        for (connections, name), seen in loads.items()
    ]
    absolute = table(["server", "connections", "creates/s", "p50 ms", "p99 ms", "failed"], rows)

    def ratio(of: str, to: str, connections: int) -> str:
        pairs = zip(loads[connections, of], loads[connections, to], strict=True)
        return spread([a.rate / b.rate for a, b in pairs])

    ratios = table(
        ["creates/s", "connections", "measured", "bar"],
        [
            ["PostgreSQL ÷ SQLite", "64", ratio(POSTGRES, SQLITE, 64), "≥ 0.75"],
            *([f"PostgreSQL ÷ {each}", "64", ratio(POSTGRES, each, 64), "≥ 4"] for each in EACH),
            ["two instances ÷ one instance", "64", ratio(TWO, POSTGRES, 64), "-"],
            *(
                [
                    "--workers 2 ÷ one worker",
                    str(connections),
                    ratio(WORKERS, POSTGRES, connections),
                    "-",
                ]
                for connections in (64, 256)
            ),
            [
                f"with {ROUND_TRIP_MS} ms between service and server ÷ without",
                "256",
                ratio(FAR, POSTGRES, 256),
                "≥ 0.5",
            ],
            ["--standbys-min 1 ÷ without", "64", ratio(INSISTING, REPLICATED, 64), "≥ 0.9"],
            ["PostgreSQL ÷ SQLite", "256", ratio(POSTGRES, SQLITE, 256), "-"],
        ],
    )
    store = table(
        [
            "store without the service, plants in a batch",
            "plants/s",
            "table bytes",
            "index bytes",
            "log bytes",
        ],
        alone,
    )
    note = (
        f"The delay between service and server was measured: {distance:.2f} ms per round trip.\n"
        "The service, the load generators and PostgreSQL share the cores. Bytes are per plant."
    )
    write_result("on_postgres", f"# On PostgreSQL\n\n{ratios}\n\n{absolute}\n\n{store}\n\n{note}")


if __name__ == "__main__":
    main()
