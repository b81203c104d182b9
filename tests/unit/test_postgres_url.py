"""Which URLs of PostgreSQL are accepted, what they mean, and how standbys are counted."""

import pytest

from plantstore.errors import UsageError
from plantstore.storage import display_url, open_store
from plantstore.storage.postgres.primary import hosts_of, parse_url
from plantstore.storage.postgres.session import standbys_in


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
        "postgresql://h/d?sslmod=require",
    ],
)
def test_the_refusal_of_a_url_does_not_quote_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_store(url)

    assert "postgresql://USER@HOST:PORT/NAME" in caught.value.message
    assert not any(part in caught.value.message for part in ("sec", "ret@"))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://one:5432,two:x/d", "its port is not a number"),
        ("postgresql://h/d?port=\u0663", "its port is not a number"),
        ("postgresql://h/d?connect_timeout=3s", "its connect_timeout is not a number"),
    ],
)
def test_a_malformed_number_is_named(url: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_url(url)

    assert said in caught.value.message


def test_each_host_of_a_url_has_its_own_address_and_port() -> None:
    def named(url: str) -> list[str]:
        return [host.name for host in hosts_of(parse_url(url))]

    assert named("postgresql://h/d") == ["h:5432"]
    assert named("postgresql:///d") == [":5432"]
    assert named("postgresql://one:1,two,three:3/d") == ["one:1", "two:5432", "three:3"]
    assert named("postgresql:///d?host=one,two&port=7") == ["one:7", "two:7"]
    assert named("postgresql:///d?hostaddr=10.0.0.1,10.0.0.2") == ["10.0.0.1:5432", "10.0.0.2:5432"]
    parameters = {"host": "two", "hostaddr": "10.0.0.2", "port": "7"}
    url = "postgresql:///d?host=one,two&hostaddr=10.0.0.1,10.0.0.2&port=7"
    assert hosts_of(parse_url(url))[1].parameters == parameters
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
        ("any 2 (a, b)", 2),
        ("first 2 (a, b)", 2),
        (' ANY  3 ("a b", "1 (x)", c)', 3),
        ('"2 (a)"', 1),
    ],
)
def test_synchronous_standbys_are_counted_as_postgresql_counts_them(
    names: str, standbys: int
) -> None:
    assert standbys_in(names) == standbys


def test_the_parameters_of_a_url_override_the_defaults() -> None:
    plain, full = (
        parse_url(f"postgresql://h/d{query}")
        for query in ("", "?connect_timeout=9&target_session_attrs=any&sslmode=verify-full")
    )

    assert "connect_timeout=3" in plain.split()
    assert "target_session_attrs=read-write" in plain.split()
    assert {"connect_timeout=9", "target_session_attrs=any", "sslmode=verify-full"} <= set(
        full.split()
    )
