"""How fast can a file of real plants be stored through POST /plants, and is every plant stored?

    python benchmarks/load_csv.py plants.csv

The file has the columns id, name and tag; an empty tag means no tag. The client is written in
Python too, and uses a large part of the two cores. So this benchmark is a check with real input;
creates.py measures the rate.
"""

import asyncio
import csv
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import apsw
import uvloop

from harness import Server, free_port, make_token, plantstore, running, table, write_result

CONNECTIONS = 64

Row = tuple[int, str, str | None]


def read(file: Path) -> list[Row]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [(int(row["id"]), row["name"], row["tag"] or None) for row in csv.DictReader(lines)]


def request(row: Row, token: str) -> bytes:
    id_, name, tag = row
    plant = {"id": id_, "name": name} | ({} if tag is None else {"tag": tag})
    body = json.dumps(plant, ensure_ascii=False).encode()
    head = (
        "POST /plants HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def post(requests: Iterator[bytes], port: int, statuses: list[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for data in requests:
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        fields = dict(line.split(b": ", 1) for line in head.splitlines()[1:-1])
        await reader.readexactly(int(fields[b"content-length"]))
        statuses.append(head[9:12])
    writer.close()


async def post_all(rows: list[Row], server: Server) -> tuple[float, list[bytes]]:
    requests = iter([request(row, server.token) for row in rows])
    statuses: list[bytes] = []
    began = time.perf_counter()
    await asyncio.gather(*(post(requests, server.port, statuses) for _ in range(CONNECTIONS)))
    return time.perf_counter() - began, statuses


def main(file: Path) -> None:
    rows = read(file)
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        with running(plantstore(database, port), port, token) as server:
            seconds, statuses = uvloop.run(post_all(rows, server))
        connection = apsw.Connection(str(database))
        stored = connection.execute("SELECT id, name, tag FROM plants ORDER BY id").fetchall()
        connection.close()
    figures = table(
        ["figure", "measured"],
        [
            ["plants in the file", f"{len(rows):,}"],
            ["answered 200", f"{statuses.count(b'200'):,}"],
            ["stored exactly as in the file", f"{len(set(stored) & set(rows)):,}"],
            ["stored differently", f"{len(set(stored) - set(rows)):,}"],
            [f"creates/s, {CONNECTIONS} connections", f"{len(rows) / seconds:,.0f}"],
        ],
    )
    write_result("load_csv", f"# Storing {file.name} through POST /plants\n\n{figures}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
