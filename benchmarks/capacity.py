"""Does the service stay small and fast when ten million plants are stored?

One server stores ten million plants; then its memory is measured. After that, a server on
this database and a server on an empty one are loaded alternately, and compared round by
round. Ids are consecutive; random_ids.py measures random ones.
"""

import shutil
import tempfile
from pathlib import Path

from harness import (
    Server,
    free_port,
    make_token,
    plantstore,
    running,
    spread,
    table,
    write_result,
    wrk,
)

PLANTS = 10_000_000
FILL_SECONDS = 30
ROUNDS = 5
SECONDS = 5
CONNECTIONS = 64


def fill(server: Server) -> tuple[int, float]:
    """Create the plants; return their number, and the highest memory of the server."""
    stored, slices, peak_mib = 0, 0, 0.0
    while stored < PLANTS:
        load = wrk(server, CONNECTIONS, FILL_SECONDS, first_id=slices * PLANTS)
        stored += load.requests - load.failed
        slices += 1
        peak_mib = max(peak_mib, server.resident_mib())
    return stored, peak_mib


def measure(database: Path, token: str, first_id: int) -> float:
    port = free_port()
    with running(plantstore(database, port), port, token) as server:
        wrk(server, CONNECTIONS, 1, first_id=first_id)
        return wrk(server, CONNECTIONS, SECONDS, first_id=first_id + PLANTS // 10).rate


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        full, empty = Path(folder) / "full.db", Path(folder) / "empty.db"
        token = make_token(full)
        port = free_port()
        with running(plantstore(full, port), port, token) as server:
            stored, peak_mib = fill(server)
            resident_mib = server.resident_mib()
        size_gib = full.stat().st_size / 2**30

        rows = [["resident memory after the creates", f"{resident_mib:.0f} MiB", "≤ 150 MB"]]
        rates: dict[str, list[float]] = {"full": [], "empty": []}
        for number in range(ROUNDS):
            first_id = 10**12 + number * PLANTS
            rates["full"].append(measure(full, token, first_id))
            rates["empty"].append(measure(empty, make_token(empty), first_id))
            for file in Path(folder).glob("empty.db*"):
                file.unlink()
        ratios = [a / b for a, b in zip(rates["full"], rates["empty"], strict=True)]
        rows.append(["creates/s on the full database ÷ on an empty one", spread(ratios), "≥ 0.8"])
        free_gib = shutil.disk_usage(folder).free / 2**30
    about = (
        f"{stored:,} plants stored, {size_gib:.2f} GiB, {CONNECTIONS} connections; "
        f"highest memory during the load {peak_mib:.0f} MiB; {free_gib:.0f} GiB of disk free."
    )
    figures = table(["figure", "measured", "bar"], rows)
    write_result("capacity", f"# Capacity\n\n{figures}\n\n{about}")


if __name__ == "__main__":
    main()
