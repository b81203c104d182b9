"""A real PgBouncer in front of PostgreSQL, in each of its modes."""

import contextlib
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from plantstore.changes import Outcome
from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from support.fronts import free_port, program, running_program
from support.postgres import Programs, execute


@contextlib.contextmanager
def pooler(programs: Programs, url: str, mode: str, ignored: str = "options") -> Iterator[str]:
    """Run PgBouncer in front of a database; yield the URL through it."""
    server = psycopg.conninfo.conninfo_to_dict(url)
    name = f"pooled_{uuid.uuid4().hex}"
    execute(url, f"CREATE DATABASE {name}")
    port = free_port()
    users = programs.folder / f"{port}.users"
    users.write_text('"postgres" ""\n')
    settings = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "trust",
        "auth_file": users,
        "pool_mode": mode,
        "ignore_startup_parameters": ignored,
    }
    lines = [f"{name} = {value}" for name, value in settings.items()]
    target = f"host={server['host']} port={server['port']}"
    configuration = programs.folder / f"{port}.ini"
    configuration.write_text("\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines]))
    command = (program("pgbouncer"), "-q", configuration)
    try:
        with running_program(programs.folder, port, *command, **programs.as_user):
            yield f"postgresql://postgres@127.0.0.1:{port}/{name}"
    finally:
        execute(url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize(
    ("mode", "ignored", "said"),
    [
        ("transaction", "options", "set its pool_mode to session"),
        ("statement", "options", "set its pool_mode to session"),
        ("transaction", "extra_float_digits", "unsupported startup parameter"),
    ],
)
def test_a_pooler_that_does_not_keep_sessions_with_their_options_is_refused(
    postgres_programs: Programs, postgres_url: str, mode: str, ignored: str, said: str
) -> None:
    with (
        pooler(postgres_programs, postgres_url, mode, ignored) as through,
        pytest.raises(StoreUnavailableError) as caught,
    ):
        open_store(through)

    assert said in caught.value.explanation


def test_plants_are_stored_through_a_pooler_in_session_mode(
    postgres_programs: Programs, postgres_url: str
) -> None:
    with (
        pooler(postgres_programs, postgres_url, "session") as through,
        contextlib.closing(open_store(through)) as store,
    ):
        assert store.apply_changes([NewPlant(1, "a")]) == [Outcome.STORED]
        store.probe()
