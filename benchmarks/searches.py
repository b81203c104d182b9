"""How fast are searches and conditional changes?

Searches and lookups read ten million plants. Datasette searches the same million plants. All are
measured in turn, and each ratio is the median of the ratios of the rounds. `make bench-peers`
installs Datasette; without it, its row is left out.
"""

import argparse
import contextlib
import secrets
import tempfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from harness import (
    Server,
    free_port,
    loading,
    make_token,
    plantstore,
    running,
    table,
    write_result,
    wrk,
)
from loads import Loads, Requests
from plant_names import (
    AUTHORS,
    BLOCK,
    EPITHETS,
    GENERA,
    nothing,
    one_word,
    plants,
    two_words,
    write_targets,
)
from plantstore.changes import entity_tag
from plantstore.storage import open_store
from python_peers import DATASETTE
from search_peer import OURS, THEIRS, as_prefixes, require_same_plants, searching_datasette

# Many short rounds: the speed of the machine varies from second to second.
ROUNDS = 12
SECONDS = 2
PLANTS = 1_000_000
MANY = 10_000_000

CREATORS = 64
SEARCHERS = 16

# Number of different queries and names.
QUERIES = 20_000

# Number of queries for which the results of Datasette are compared with ours.
COMPARED = 100

COUNT = "count=exact"
FIND = f"`GET /plants/{{id}}`, {SEARCHERS} connections"
SEARCH = f"two words, {SEARCHERS} connections"
PUT = f"PUT, {CREATORS} connections"
CONDITIONAL_PUT = f"PUT with If-Match, {CREATORS} connections"
BESIDE = f"creates beside two words, {SEARCHERS} connections"


# The row of the result below a ratio of rates.
CPU = "CPU time of the service, in the same rounds"


@contextlib.contextmanager
def serving(database: Path) -> Iterator[Server]:
    """Run the service on a file until the block ends."""
    port = free_port()
    scopes = [f"--scope=plants:{action}" for action in ("create", "read", "update")]
    token = make_token(database, secrets.token_hex(), *scopes)
    with running(plantstore(database, port), port, token) as server:
        yield server


def as_requests(file: Path, form: str, queries: Iterable[str]) -> Requests:
    """Return requests with these queries. The file is for their targets."""
    return {"send": "get", "targets": str(write_targets(file, form, queries))}


def fill(database: Path, number: int) -> None:
    """Create a database with generated plants."""
    with contextlib.closing(open_store(f"sqlite:///{database}")) as store:
        made = plants(number)
        while block := list(islice(made, BLOCK)):
            store.apply_changes(block)


def searches(
    loads: Loads, database: Path, number: int, rounds: int, names: Path
) -> list[list[str]]:
    """Search many plants; return rows for the result."""
    queries = {
        SEARCH: two_words(QUERIES),
        f"one letter, {SEARCHERS} connections": one_word(QUERIES, 1),
        f"six letters, {SEARCHERS} connections": one_word(QUERIES, 6),
        f"two words that no plant has, {SEARCHERS} connections": nothing(QUERIES),
    }
    sent: dict[str, Requests] = {
        name: as_requests(database.with_name(f"targets-{index}"), OURS, made)
        for index, (name, made) in enumerate(queries.items())
    }
    with serving(database) as server:
        for each in range(rounds):
            loads.measure(FIND, server, SEARCHERS, {"send": "find", "plants": number})
            for name, what in sent.items():
                loads.measure(name, server, SEARCHERS, what)
            first_id = (each + 1) * 10**12
            created: Requests = {"names": str(names), "first_id": first_id}
            loads.add("creates alone", wrk(server, CREATORS, loads.seconds, **created))
            created["first_id"] = first_id + 10**10
            with loading(server, SEARCHERS, loads.seconds + 2, **sent[SEARCH]) as searched:
                loads.add(BESIDE, wrk(server, CREATORS, loads.seconds, **created))
                loads.add(f"{SEARCH}, beside creates", searched())
        resident = server.resident_mib()
    return [
        [
            f"p99 of a search for two words ÷ p50 of `GET /plants/{{id}}`, {number:,} plants",
            loads.ratio(SEARCH, FIND, "p99_ms", "p50_ms"),
            "≤ 10",
        ],
        [
            "longest latency of a create beside searches, ms",
            f"{loads.longest_ms(BESIDE):.1f}",
            "-",
        ],
        [f"resident memory after the searches, {number:,} plants", f"{resident:.0f} MiB", "-"],
    ]


def compare(loads: Loads, database: Path, rounds: int) -> list[list[str]]:
    """Search the same plants with Datasette; return rows for the result."""
    queries = list(two_words(QUERIES))
    folder = database.parent
    sent = as_requests(folder / "targets", OURS, queries)
    sent_to_them = as_requests(folder / "their-targets", THEIRS, map(as_prefixes, queries))
    ours, theirs = "two words, the same plants as Datasette", "two words, Datasette"
    with serving(database) as server, searching_datasette(database) as datasette:
        require_same_plants(server, datasette, queries[:COMPARED])
        for _ in range(rounds):
            loads.measure(ours, server, SEARCHERS, sent)
            loads.measure(theirs, datasette, SEARCHERS, sent_to_them)
    return [["searches/s ÷ those of Datasette", loads.ratio(ours, theirs), "≥ 10"]]


def counts(loads: Loads, database: Path, number: int, rounds: int) -> list[list[str]]:
    """List and search plants with and without their number; return rows for the result."""
    listing: Requests = {"send": "list", "plants": number}
    searching = as_requests(database.with_name("targets"), OURS, two_words(QUERIES))
    rows = []
    with serving(database) as server:
        for _ in range(rounds):
            for name, what in (("pages", listing), ("pages of two words", searching)):
                loads.measure(name, server, CREATORS, what)
                loads.measure(f"{name}, {COUNT}", server, CREATORS, what | {"prefer": COUNT})
    for name, bar in (("pages", "≥ 0.9"), ("pages of two words", "-")):
        figure = f"{name}/s with `Prefer: {COUNT}` ÷ without"
        rows.append([figure, loads.ratio(f"{name}, {COUNT}", name), bar])
        rows.append([CPU, loads.cpu_ratio(f"{name}, {COUNT}", name), "-"])
    return rows


def changes(loads: Loads, database: Path, number: int, rounds: int, names: Path) -> list[list[str]]:
    """Replace plants, with and without a condition; return rows for the result.

    Each load has other plants: a condition is true only once, and a change to the same name costs
    less.
    """
    made = plants(number)
    targets = database.with_name("changes")
    warm_up: Requests = {"send": "find", "plants": number}
    with serving(database) as server:
        for name in (PUT, CONDITIONAL_PUT) * rounds:
            with targets.open("w", encoding="ascii") as lines:
                for plant in islice(made, number // (2 * rounds)):
                    etag = f" {entity_tag(plant.name, plant.tag)}" if name != PUT else ""
                    lines.write(f"/plants/{plant.id}{etag}\n")
            what: Requests = {"send": "put", "targets": str(targets), "names": str(names)}
            loads.measure(name, server, CREATORS, what, warm_up)
    return [
        ["PUT/s with If-Match ÷ PUT/s", loads.ratio(CONDITIONAL_PUT, PUT), "≥ 0.9"],
        [CPU, loads.cpu_ratio(CONDITIONAL_PUT, PUT), "-"],
    ]


def main(number: int, many: int, rounds: int, seconds: int) -> None:
    loads = Loads(seconds)
    rows = []
    has_peer = DATASETTE.program.exists()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored, names, searched = folder / "plants.db", folder / "names", folder / "many.db"
        names.write_text("".join(f"{plant.name}\n" for plant in plants(QUERIES)), encoding="utf-8")
        fill(stored, number)
        if has_peer:
            rows += compare(loads, stored, rounds)
        rows += counts(loads, stored, number, rounds)
        rows += changes(loads, stored, number, rounds, names)
        fill(searched, many)
        rows += searches(loads, searched, many, rounds, names)
    peer = "Datasette was left out: it is not installed. `make bench-peers` installs it."
    if has_peer:
        peer = f"""Datasette searches the same {number:,} plants, with the full-text index of
`sqlite-utils enable-fts` and a query that has `*` after each word. For {COMPARED} queries, its
first page was the same as ours. Versions: {DATASETTE.versions()}."""
    figures = table(["figure", "measured", "bar"], rows)
    write_result(
        "searches",
        f"""# Searches

{figures}

{loads.table()}

The CPU time is that of the server, per successful request. Pages have 100 plants. The names have a
genus, an epithet and an author, of {GENERA:,}, {EPITHETS:,} and {AUTHORS:,} words, whose frequency
is about inverse to their rank. A search for two words has the first three to six letters of the
genus and the epithet of a plant; one in ten has those of different plants. Loads without another
statement read or change the database of {number:,} plants.

{peer}""",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    sizes = {"number": PLANTS, "many": MANY, "rounds": ROUNDS, "seconds": SECONDS}
    for option, default in sizes.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    main(**vars(parser.parse_args()))
