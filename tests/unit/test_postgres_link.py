"""When a lost server is tried again, and what a URL may say."""

from typing import Any, cast

import pytest

from plantstore.errors import StoreUnavailableError, StoreUnreachableError, UsageError
from plantstore.storage import display_url
from plantstore.storage.postgres_link import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    FRESH_SECONDS,
    Connection,
    Link,
    parse_url,
)


class FakeConnection:
    """Answers what a link asks of a connection."""

    def __init__(self) -> None:
        self.closed = False
        self.usable = True
        self.looks = 0
        self.warnings: list[str] = []

    def is_usable(self) -> bool:
        self.looks += 1
        return self.usable

    def close(self) -> None:
        self.closed = True


class FakeServer:
    """Gives connections, or fails to, and sets the clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.is_up = True
        self.attempts = 0
        self.connections: list[FakeConnection] = []
        self.link = Link(self.connect, lambda: self.now)

    def connect(self) -> Connection:
        self.attempts += 1
        if not self.is_up:
            raise StoreUnavailableError("The database cannot be reached", "refused")
        self.connections.append(FakeConnection())
        return cast("Connection", self.connections[-1])

    def use(self) -> Any:
        with self.link.using("It failed") as connection:
            return connection


def test_a_connection_is_made_when_it_is_used_and_kept() -> None:
    server = FakeServer()
    assert server.attempts == 0

    assert server.use() is server.use()

    assert server.attempts == 1


def test_a_lost_server_is_tried_again_after_a_while_that_doubles_up_to_a_bound() -> None:
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


def test_when_the_server_is_back_the_next_loss_begins_with_a_short_wait_again() -> None:
    server = FakeServer()
    server.is_up = False
    for _ in range(8):
        server.now += BACKOFF_SECONDS_MAX
        with pytest.raises(StoreUnreachableError):
            server.use()
    server.now += BACKOFF_SECONDS_MAX
    server.is_up = True
    server.use().closed = True
    server.is_up = False

    with pytest.raises(StoreUnreachableError):
        server.use()
    server.is_up = True
    server.now += BACKOFF_SECONDS_MIN

    assert server.use() is server.connections[1]


def test_a_connection_that_was_idle_is_looked_at_and_replaced_if_it_is_lost() -> None:
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


def test_what_ends_with_a_warning_failed_and_the_connection_is_not_used_again() -> None:
    server = FakeServer()

    with pytest.raises(StoreUnavailableError) as caught, server.link.using("It failed") as used:
        used.warnings.append("canceling wait for synchronous replication")

    assert not isinstance(caught.value, StoreUnreachableError), "it may have taken effect"
    assert caught.value.reason == "canceling wait for synchronous replication"
    assert server.use() is server.connections[1]


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
        "postgresql://h/d?secret=1",
        "postgresql://h:secret/d",
        "postgresql://ann:sec@ret@h/d",
        "postgresql://ann:sec/ret@h/d",
        "postgresql://ann:%se@h/d",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)

    assert "postgresql://USER@HOST:PORT/NAME" in caught.value.message
    assert not any(part in caught.value.message for part in ("secret", "sec", "ret@", "%se"))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_what_a_url_leaves_out_is_filled_in_and_what_it_says_is_kept() -> None:
    plain, full = (
        parse_url(f"postgresql://h/d{query}")
        for query in ("", "?connect_timeout=9&target_session_attrs=any&sslmode=verify-full")
    )

    assert "connect_timeout=3" in plain.split()
    assert "target_session_attrs=read-write" in plain.split()
    assert {"connect_timeout=9", "target_session_attrs=any", "sslmode=verify-full"} <= set(
        full.split()
    )
