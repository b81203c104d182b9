"""How fast are many plants in one request, and how much do they delay other requests?

A stream of half a million plants to `POST /plants.ndjson` is compared with `plantstore import` of
the same file, with single creates, and with servers that take an array of plants in each request.
`GET /plants.ndjson` is compared with `plantstore export`. Each ratio is the
median of the ratios of the rounds. `make bench-peers` installs Datasette; without it, its row is
left out.
"""

import dataclasses
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness import (
    Server,
    fill,
    free_port,
    make_token,
    plantstore,
    running,
    table,
    write_result,
    wrk,
)
from measurements import Seen, Transfer
from peer import Peer
from python_peers import DATASETTE, FASTAPI, PLANTSTORE
from search_peer import SEARCHED_DATASETTE
from streams import (
    CSV,
    NDJSON,
    Stream,
    as_json_lines,
    lines,
    receive,
    send,
    send_file,
)
from transfer import EXPORTED, generate
from transfer import measure as import_by_command

ROUNDS = 3
SECONDS = 5

# Each round has so many short loads without a stream and beside one, in turn: a single slow sync
# of the disk may decide the p99 of a load.
PAIRS = 3
PAIR_SECONDS = 2

PLANTS = 500_000
CONNECTIONS = 64
LARGE_BYTES = 500_000_000

# The plants that wrk sends, as a file of about as many plants. They all have one tag.
SAME_BYTES = 33_000_000

# Connections that send arrays: several, so that a server always has the next request.
ARRAY_CONNECTIONS = 4

COMMAND = "`plantstore import`, NDJSON"
STREAM = "stream, NDJSON"
STREAM_SAME = "stream, NDJSON, the plants of wrk"
STREAMS = {
    STREAM_SAME: (NDJSON, "same.jsonl"),
    STREAM: (NDJSON, "plants.jsonl"),
    "stream, CSV": (CSV, "plants.csv"),
}
CREATES = f"single creates, {CONNECTIONS} connections"
CREATES_ALONE = f"{CREATES}, without a stream"
CREATES_BESIDE = f"{CREATES}, beside a stream"
STREAM_BESIDE = f"stream, NDJSON, beside {CREATES}"
EXPORT_COMMAND = "`plantstore export`, NDJSON"
EXPORT = "export, NDJSON"
EXPORTS = {
    EXPORT: NDJSON,
    "export, CSV": CSV,
}


@dataclass(frozen=True)
class Arrays:
    """A server that takes arrays of plants, and how many plants it takes at once."""

    peer: Peer
    rows: int

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.peer.name}, arrays of {self.rows:,}"


FASTAPI_ARRAYS = Arrays(dataclasses.replace(FASTAPI, target="/plants/many", body="[%s]"), 1_000)
# By default, Datasette takes at most 100 rows.
DATASETTE_ARRAYS = Arrays(dataclasses.replace(DATASETTE, body='{"rows":[%s]}'), 100)
# Our plants always have an index of words.
SEARCHED_ARRAYS = dataclasses.replace(
    DATASETTE_ARRAYS, peer=dataclasses.replace(SEARCHED_DATASETTE, body='{"rows":[%s]}')
)


def import_round(seen: Seen, folder: Path) -> None:
    seconds = import_by_command("plantstore import", folder, folder / "plants.jsonl", PLANTS)
    seen.add(COMMAND, Transfer(PLANTS, seconds))
    for name, (path, file) in STREAMS.items():
        with PLANTSTORE.serving() as (server, _):
            seen.add(name, send_file(server, folder / file, path))


def array_round(seen: Seen, arrays: Arrays) -> None:
    peer, rows = arrays.peer, arrays.rows
    with peer.serving() as (server, _):
        for first_id, seconds in ((10**12, 1), (0, SECONDS)):
            before = server.cpu_seconds()
            load = wrk(
                server,
                ARRAY_CONNECTIONS,
                seconds,
                first_id=first_id,
                target=peer.target,
                body=peer.body,
                rows=rows,
            )
        seen.add_load(arrays.name, load, rows, server.cpu_seconds() - before)


def creates_round(seen: Seen) -> None:
    with PLANTSTORE.serving() as (server, _):
        wrk(server, CONNECTIONS, 1, first_id=10**12)
        before = server.cpu_seconds()
        load = wrk(server, CONNECTIONS, SECONDS, first_id=2 * 10**12)
        seen.add_load(CREATES, load, cpu_seconds=server.cpu_seconds() - before)
    for _ in range(PAIRS):
        pair(seen)


def pair(seen: Seen) -> None:
    """Measure creates without a stream and beside one, each with a service of its own.

    With one service, the second load would find a larger database, and the log of the first one.
    """
    for is_beside in (False, True):
        with PLANTSTORE.serving() as (server, _):
            wrk(server, CONNECTIONS, 1, first_id=10**12)
            if not is_beside:
                load = wrk(server, CONNECTIONS, PAIR_SECONDS, first_id=2 * 10**12)
                seen.add_load(CREATES_ALONE, load)
                continue
            with Stream(server) as stream:
                load = wrk(server, CONNECTIONS, PAIR_SECONDS, first_id=2 * 10**12)
            seen.add_load(CREATES_BESIDE, load)
            seen.add(STREAM_BESIDE, dataclasses.replace(stream.sent, cpu_seconds=0))


def export_round(seen: Seen, server: Server, database: Path) -> None:
    file = database.with_suffix(".jsonl")
    began = time.perf_counter()
    export_by_command(database, file)
    seen.add(EXPORT_COMMAND, Transfer(PLANTS, time.perf_counter() - began))
    file.unlink()
    for name, path in EXPORTS.items():
        seen.add(name, receive(server, path, PLANTS))


def export_by_command(database: Path, file: Path) -> None:
    command = [sys.executable, "-m", "plantstore", "export", str(file)]
    command += ["--database", f"sqlite:///{database}"]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)


def memory(folder: Path) -> list[list[str]]:
    """Return rows about the memory of a large stream and of a large export."""
    with PLANTSTORE.serving() as (server, _):
        sent = send(server, lines(lambda made: made >= LARGE_BYTES))
        stream_mib = server.peak_mib()
    print(f"large stream: {stream_mib:.0f} MiB, {sent.rate:,.0f} plants/s", file=sys.stderr)
    full, port = folder / "full.db", free_port()
    fill(full, EXPORTED)
    with running(plantstore(full, port), port, make_token(full)) as server:
        receive(server, NDJSON, EXPORTED)
        export_mib = server.peak_mib()
    print(f"large export: {export_mib:.0f} MiB", file=sys.stderr)
    large = f"{LARGE_BYTES // 10**6} MB ({sent.plants:,} plants)"
    return [
        [f"peak memory of the service, stream of {large}", f"{stream_mib:.0f} MiB", "≤ 150 MB"],
        [
            f"peak memory of the service, export of {EXPORTED:,} plants",
            f"{export_mib:.0f} MiB",
            "≤ 150 MB",
        ],
    ]


def ratios(seen: Seen) -> list[list[str]]:
    rows = [
        [f"plants/s, {of} ÷ {to}", seen.rate_ratio(of, to), bar]
        for of, to, bar in (
            (STREAM, COMMAND, "≥ 0.6"),
            (STREAM_SAME, CREATES, "≥ 5"),
            (STREAM_SAME, FASTAPI_ARRAYS.name, "≥ 3"),
            (STREAM_SAME, DATASETTE_ARRAYS.name, "≥ 20"),
            (STREAM_SAME, SEARCHED_ARRAYS.name, "-"),
            (EXPORT, EXPORT_COMMAND, "-"),
        )
        if to in seen.transfers
    ]
    p99 = seen.p99_ratio(CREATES_BESIDE, CREATES_ALONE)
    return [*rows, [f"p99, {CREATES_BESIDE} ÷ without it", p99, "≤ 3"]]


def main() -> None:
    peers = (FASTAPI_ARRAYS, DATASETTE_ARRAYS, SEARCHED_ARRAYS)
    arrays = [each for each in peers if each.peer.program.exists()]
    seen = Seen()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        generate(folder / "plants.csv", PLANTS)
        as_json_lines(folder / "plants.csv", folder / "plants.jsonl")
        with (folder / "same.jsonl").open("wb") as same:
            same.writelines(lines(lambda made: made >= SAME_BYTES))
        database, port = folder / "exported.db", free_port()
        fill(database, PLANTS)
        with running(plantstore(database, port), port, make_token(database)) as server:
            for _ in range(ROUNDS):
                import_round(seen, folder)
                creates_round(seen)
                for each in arrays:
                    array_round(seen, each)
                export_round(seen, server, database)
        memories = memory(folder)
    notes = [f"- {each.name}: {each.peer.versions()}." for each in arrays]
    if DATASETTE_ARRAYS not in arrays:
        notes.append(
            "- Datasette was left out: it is not installed. `make bench-peers` installs it."
        )
    write_result(
        "imports",
        f"""# Many plants in one request

{table(["figure", "measured", "bar"], ratios(seen) + memories)}

{seen.table()}

Streams, exports and commands transfer {PLANTS:,} plants. The times of the commands include the
start of the program. A stream is one request on one connection. It has a Content-Length, except
beside single creates, where it is chunked. Arrays use {ARRAY_CONNECTIONS} connections. The CPU time
is that of the server. The plants of wrk have one tag, and the others have 500 tags, so that storing
them changes more pages of the index of tags.

{chr(10).join(notes)}""",
    )


if __name__ == "__main__":
    main()
