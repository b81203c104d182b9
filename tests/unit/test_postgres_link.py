"""When a lost server is tried again, and which URLs are accepted."""

from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest

from plantstore.errors import StoreUnavailableError, StoreUnreachableError, UsageError
from plantstore.storage import display_url, open_store
from plantstore.storage.postgres.cluster import standbys_in
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.link import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    FRESH_SECONDS,
    Link,
)
from plantstore.storage.postgres.url import Server, parse_url, servers_of

if TYPE_CHECKING:
    from plantstore.storage.postgres.servers import Servers


class FakeConnection:
    """Has the members of a connection that a link uses."""

    def __init__(self) -> None:
        self.closed = False
        self.server = Server("one:5432", "")
        self.usable = True
        self.is_reliable = True
        self.is_rejected = False
        self.looks = 0

    def is_open(self) -> bool:
        self.looks += 1
        return self.usable

    def check(self) -> None:
        if not self.is_reliable:
            self.closed = True
            raise psycopg.OperationalError("not to be relied upon")

    def close(self) -> None:
        self.closed = True


class FakeServer:
    """Has the members of `Servers` that a link uses. Sets the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.is_up = True
        self.attempts = 0
        self.connections: list[FakeConnection] = []
        self.lost: list[object] = []
        self.link = Link(cast("Servers", self), monotonic=lambda: self.now)

    def connect(self, *, for_writes: bool = False) -> Connection:  # noqa: ARG002
        self.attempts += 1
        if not self.is_up:
            raise StoreUnavailableError("The database cannot be reached", "refused")
        self.connections.append(FakeConnection())
        return cast("Connection", self.connections[-1])

    def is_current(self, _connection: Connection) -> bool:
        return True

    def lose(self, connection: Connection) -> None:
        self.lost.append(connection)

    def use(self) -> Any:
        with self.link.using("It failed") as connection:
            return connection


def test_a_lost_server_is_retried_with_exponential_backoff_until_it_is_found() -> None:
    server = FakeServer()
    server.is_up = False
    waits = []

    for _ in range(8):
        with pytest.raises(StoreUnreachableError):
            server.use()
        failed_at, attempts = server.now, server.attempts
        while server.attempts == attempts:
            server.now += 0.01
            with pytest.raises(StoreUnreachableError) as caught:
                server.use()
            assert caught.value.explanation == "The database cannot be reached: refused"
        waits.append(server.now - failed_at)

    assert waits[0] == pytest.approx(BACKOFF_SECONDS_MIN, abs=0.02)
    assert waits[1] > 1.5 * waits[0]
    assert waits[-1] == pytest.approx(BACKOFF_SECONDS_MAX, abs=0.02)
    server.is_up = True
    server.now += BACKOFF_SECONDS_MAX
    server.use().closed = True
    server.is_up = False
    with pytest.raises(StoreUnreachableError):
        server.use()
    server.is_up = True
    server.now += BACKOFF_SECONDS_MIN
    assert server.use() is server.connections[1], "the first wait is short again"


def test_an_idle_connection_is_checked_before_its_use_and_replaced_if_it_is_lost() -> None:
    server = FakeServer()
    first = server.use()
    server.now += FRESH_SECONDS / 2
    server.use()
    assert first.looks == 0, "it was in use a moment ago"

    server.now += FRESH_SECONDS + 0.1
    assert server.use() is first
    assert first.looks == 1

    first.usable = False
    server.now += FRESH_SECONDS + 0.1
    assert server.use() is server.connections[1]
    assert first.closed


def test_a_statement_whose_connection_fails_its_check_may_have_taken_effect() -> None:
    server = FakeServer()
    server.use()
    server.connections[0].is_reliable = False

    with pytest.raises(StoreUnavailableError) as caught:
        server.use()

    assert not isinstance(caught.value, StoreUnreachableError)
    assert caught.value.explanation == "It failed: one:5432: not to be relied upon"
    assert server.lost == [server.connections[0]]
    assert server.use() is server.connections[1]


def test_a_closed_link_does_not_connect_again() -> None:
    server = FakeServer()
    server.use()

    server.link.close()

    assert server.connections[0].closed
    with pytest.raises(StoreUnreachableError):
        server.use()
    assert server.attempts == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///plants.db", "sqlite:///plants.db"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://ann:secret@h:1,i:2/d?sslmode=require", "postgresql://h:1,i:2/d"),
        ("postgres://ann:secret@/d?host=/run&password=secret", "postgres:///d"),
        ("postgresql://ann:sec?ret@h/d", "postgresql://..."),
        ("postgresql://ann:sec@ret@h/d", "postgresql://h/d"),
        ("postgresql://ann:sec/ret@h/d", "postgresql://h/d"),
        ("postgresql://h/d?password=sec@ret", "postgresql://..."),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    assert display_url(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        *("postgresql+psycopg://ann:secret@h/d", "Postgresql://ann:secret@h/d"),
        *(" postgresql://ann:secret@h/d", "postgresql:ann:secret@h/d", "host=h password=secret"),
        *("postgresql://h/d?x=sec", "postgresql://h:sec/d", "postgresql://ann:%sec@h/d"),
        *("postgresql://ann:sec@ret@h/d", "postgresql://ann:sec/ret@h/d"),
        *("postgresql://ann:a/b?sec=ret@h/d", "postgresql://h/d?password=abc&secret"),
    ],
)
def test_an_unsupported_or_malformed_url_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)

    assert "postgresql://USER@HOST:PORT/NAME" in caught.value.message
    assert not any(part in caught.value.message for part in ("sec", "ret@"))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "postgresql://h/d?ssl=true&options=-ca=b&sslmod=require",
            'its parameter "sslmod" is unknown (did you mean "sslmode"?); it must be',
        ),
        ("postgresql://h/d?%78=1", 'its parameter "x" is unknown; it must be'),
        ("postgresql://one:5432,two:x/d", "its port is not a number"),
        ("postgresql://h/d?port=\u0663", "its port is not a number"),
        ("postgresql://h/d?connect_timeout=3s", "its connect_timeout is not a number"),
    ],
)
def test_a_misspelt_parameter_or_a_malformed_port_is_named(url: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)

    assert said in caught.value.message


def test_each_server_of_a_url_has_its_own_connection_string() -> None:
    def named(url: str) -> list[str]:
        return [server.name for server in servers_of(parse_url(url))]

    assert named("postgresql://h/d") == ["h:5432"]
    assert named("postgresql:///d") == ["local:5432"]
    assert named("postgresql://one:1,two,three:3/d") == ["one:1", "two:5432", "three:3"]
    assert named("postgresql:///d?host=one,two&port=7") == ["one:7", "two:7"]
    assert named("postgresql:///d?hostaddr=10.0.0.1,10.0.0.2") == ["10.0.0.1:5432", "10.0.0.2:5432"]
    assert "host=two" in servers_of(parse_url("postgresql://one,two/d"))[1].conninfo
    with pytest.raises(UsageError, match="as many ports as hosts"):
        named("postgresql:///d?host=one,two,three&port=1,2")


@pytest.mark.parametrize(
    ("names", "standbys"),
    [
        ("", 0),
        (" ", 0),
        ("*", 1),
        ("a", 1),
        ("a, b", 1),
        ("2 (a, b, c)", 2),
        ("FIRST 2 (a, b)", 2),
        ("any 1 (a, b)", 1),
        (' ANY  3 ("a b", "1 (x)", c)', 3),
        ('"2 (a)"', 1),
    ],
)
def test_synchronous_standbys_are_counted_as_postgresql_counts_them(
    names: str, standbys: int
) -> None:
    assert standbys_in(names) == standbys


def test_a_url_gets_default_parameters_and_keeps_its_own() -> None:
    plain, full = (
        parse_url(f"postgresql://h/d{query}")
        for query in ("", "?connect_timeout=9&target_session_attrs=any&sslmode=verify-full")
    )

    assert "connect_timeout=3" in plain.split()
    assert "target_session_attrs=read-write" in plain.split()
    assert {"connect_timeout=9", "target_session_attrs=any", "sslmode=verify-full"} <= set(
        full.split()
    )
