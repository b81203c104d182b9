"""How much less CPU time does the service need than at an older commit?

`creates.py --against COMMIT` runs it. Both versions run in this environment, alternately, so the
packages are the same, and variations of the machine affect both. The commit is checked out into a
temporary folder. Each ratio is the median of the ratios of the rounds. In each round, each version
imports the same plants, and then reads them; creates begin with an empty database.
"""

import contextlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from harness import HERE, Server, free_port, running, script, spread, table, write_result, wrk
from loads import Requests
from plant_names import plants, two_words, write_csv, write_targets
from search_peer import OURS

ROUNDS = 5
SECONDS = 5
WARM_UP_SECONDS = 1

# With 64, a batch of the writer is small. With 1,000, it has hundreds of plants.
CONNECTIONS = (64, 256, 1_000)
READERS = 64
PLANTS = 300_000

# Number of different names and queries.
QUERIES = 20_000

NOW, BEFORE, NOOP = "now", "before", "no-op"

RATE, P99, FAILED = "requests/s", "p99 ms", "failed"
LOOP, ALL, WRITER = "CPU µs of the event loop", "CPU µs of all threads", "CPU µs of the writer"

IMPORT = f"import of {PLANTS:,} plants"
FIND = "`GET /plants/{id}`"
LIST = "`GET /plants?limit=100` at a random place"
SEARCH = "`GET /plants?q=` with two words"


def creates(connections: int) -> str:
    """Return the name of the load of creates."""
    return f"creates, {connections:,} connections"


# A load, its figure, and what the present version is compared with.
COMPARED = (
    *((creates(many), figure, BEFORE) for many in CONNECTIONS for figure in (LOOP, ALL, WRITER)),
    *((creates(many), figure, NOOP) for many in CONNECTIONS for figure in (RATE, P99)),
    *((load, ALL, BEFORE) for load in (FIND, LIST, SEARCH, IMPORT)),
)


@dataclass(frozen=True)
class Version:
    """The service at a commit.

    Attributes:
        name: in the result.
        source: the folder of its package.

    """

    name: str
    source: Path

    def run(self, *arguments: str) -> str:
        """Run `plantstore ...` to its end; return what it prints."""
        command = self._command(*arguments)
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    @contextlib.contextmanager
    def serving(self, database: Path) -> Iterator[Server]:
        """Serve a database until the block ends."""
        options, port = ("--database", f"sqlite:///{database}"), free_port()
        token = self.run("token", "create", f"benchmark {port}", *options)
        with running(self._command("serve", "--port", str(port), *options), port, token) as server:
            yield server

    def _command(self, *arguments: str) -> list[str]:
        program = [sys.executable, str(HERE / "named_threads.py")]
        return ["env", f"PYTHONPATH={self.source}", *program, *arguments]


@dataclass
class Figures:
    """The figures of all rounds, by the load, the figure and the version."""

    seen: dict[tuple[str, str, str], list[float]] = field(default_factory=dict)

    def add(self, load: str, version: str, **figures: float) -> None:
        """Add the figures of a load in a round."""
        print(f"{load}, {version}: {figures}", file=sys.stderr)
        for figure, value in figures.items():
            self.seen.setdefault((load, figure, version), []).append(value)

    def ratios(self) -> list[list[str]]:
        """Return the rows of the ratios."""
        rows = []
        for load, figure, to in COMPARED:
            pairs = zip(self.seen[load, figure, NOW], self.seen[load, figure, to], strict=True)
            ratio = spread([a / b for a, b in pairs])
            rows.append([load, figure, f"{NOW} ÷ {to}", ratio])
        return rows

    def medians(self) -> list[list[str]]:
        """Return the rows of the medians."""
        rows = []
        for load, version in dict.fromkeys((load, version) for load, _, version in self.seen):
            row = [load, version]
            for figure in (RATE, P99, LOOP, ALL, WRITER, FAILED):
                values = self.seen.get((load, figure, version))
                row.append(f"{median(values):,.1f}" if values else "-")
            rows.append(row)
        return rows


@dataclass(frozen=True)
class Inputs:
    """Files for the requests.

    Attributes:
        plants: those that are imported.
        names: those that are created.
        queries: the targets of searches.

    """

    plants: Path
    names: Path
    queries: Path


def make_inputs(folder: Path) -> Inputs:
    inputs = Inputs(folder / "plants.csv", folder / "names", folder / "queries")
    write_csv(inputs.plants, PLANTS)
    names = "".join(f"{plant.name}\n" for plant in plants(QUERIES))
    inputs.names.write_text(names, encoding="utf-8")
    write_targets(inputs.queries, OURS, two_words(QUERIES))
    return inputs


@contextlib.contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """Check out a commit into a temporary folder; yield the folder of its package."""
    git = ["git", "-C", str(HERE), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        subprocess.run([*git, "add", "--detach", str(tree), commit], check=True)
        try:
            yield tree / "src"
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measure(
    figures: Figures,
    load: str,
    version: str,
    server: Server,
    connections: int,
    *,
    what: Requests,
    warm_up: Requests | None = None,
) -> None:
    """Load a server, and add the figures; warm it up with other requests, if these are given."""
    wrk(server, connections, WARM_UP_SECONDS, **(what if warm_up is None else warm_up))
    before = server.cpu_seconds_of_threads()
    seen = wrk(server, connections, SECONDS, **what)
    after = server.cpu_seconds_of_threads()
    each = 1e6 / (seen.requests - seen.failed)
    used = {thread: (after[thread] - before.get(thread, 0.0)) * each for thread in after}
    cpu_us = {LOOP: used[server.process.pid], ALL: sum(used.values())}
    for thread, name in server.names_of_threads().items():
        if name == "writer":
            cpu_us[WRITER] = used[thread]
    client = {RATE: seen.rate, P99: seen.p99_ms, FAILED: seen.failed}
    figures.add(load, version, **client, **cpu_us)


def import_and_read(figures: Figures, version: Version, inputs: Inputs) -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "plants.db"
        with version.serving(database):  # creates it
            pass
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        version.run("import", str(inputs.plants), "--database", f"sqlite:///{database}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        figures.add(IMPORT, version.name, **{ALL: 1e6 * cpu_seconds / PLANTS})
        reads: dict[str, Requests] = {
            FIND: {"send": "find", "plants": PLANTS},
            LIST: {"send": "list", "plants": PLANTS},
            SEARCH: {"send": "get", "targets": str(inputs.queries)},
        }
        with version.serving(database) as server:
            for load, what in reads.items():
                measure(figures, load, version.name, server, READERS, what=what)


@contextlib.contextmanager
def serving_noop(database: Path) -> Iterator[Server]:
    """Serve the handler that does nothing until the block ends."""
    port = free_port()
    with running(script("falcon_noop.py", database, port), port, "any") as server:
        yield server


def create(figures: Figures, versions: list[Version], connections: int, names: Path) -> None:
    serving = {version.name: version.serving for version in versions} | {NOOP: serving_noop}
    for name, serve in serving.items():
        with tempfile.TemporaryDirectory() as folder, serve(Path(folder) / "plants.db") as server:
            what: Requests = {"names": str(names)}
            warm_up = what | {"first_id": 10**12}
            load = creates(connections)
            measure(figures, load, name, server, connections, what=what, warm_up=warm_up)


def compare(commit: str) -> None:
    """Compare with a commit, and write the result."""
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder, checked_out(commit) as source:
        inputs = make_inputs(Path(folder))
        versions = [Version(NOW, HERE.parent / "src"), Version(BEFORE, source)]
        for number in range(ROUNDS):
            if number:
                versions.reverse()
            for version in versions:
                import_and_read(figures, version, inputs)
            for connections in CONNECTIONS:
                create(figures, versions, connections, inputs.names)
    ratios = table(["load", "figure", "ratio", "measured"], figures.ratios())
    medians = table(["load", "version", RATE, P99, LOOP, ALL, WRITER, FAILED], figures.medians())
    write_result(
        "before",
        f"""# Compared with an older commit

{ratios}

{medians}

Before is the commit {commit}. The no-op is a handler of Falcon that does nothing, on uvicorn as it
comes. CPU times are per successful request; those of the import are per plant, with the start of
the command. Reads use {READERS} connections and {PLANTS:,} plants. The names are generated: their
words are about as frequent as in real catalogues.""",
    )
