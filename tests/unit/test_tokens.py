"""Tokens: their format, digest, state, removal from texts, and rates."""

import contextlib
import re
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plantstore.api.limits import RatePerToken, parse_rates
from plantstore.errors import RequestError, UsageError
from plantstore.tokens import BASE62, TokenRecord, digest, is_well_formed, mint, redact
from support.wire import escaped, percent


def test_each_new_token_is_another_well_formed_one() -> None:
    tokens = {mint() for _ in range(1000)}

    assert len(tokens) == 1000
    assert all(re.fullmatch(r"plst_[0-9A-Za-z]{36}", token) for token in tokens)
    assert all(map(is_well_formed, tokens))


def test_the_last_six_characters_are_the_crc_32_of_the_thirty_before_them() -> None:
    token = mint()

    number = 0
    for character in token[-6:]:
        number = number * 62 + BASE62.index(character)
    assert number == zlib.crc32(token[5:35].encode())


@given(st.integers(0, 40), st.sampled_from(BASE62 + "_- é"))
def test_a_mistyped_character_breaks_the_checksum(position: int, character: str) -> None:
    token = mint()
    mistyped = token[:position] + character + token[position + 1 :]

    assert is_well_formed(mistyped) is (mistyped == token)


def test_a_digest_is_the_sha_256_of_the_whole_token() -> None:
    assert digest("plst_") == bytes.fromhex(
        "71797390a27296eae20850bf72a0f236817dec08813fff7f802e2dd419b5e812"
    )
    assert len(digest(mint())) == 32


@pytest.mark.parametrize(
    ("expires_at", "revoked_at", "now", "state"),
    [
        (None, None, 1e12, "active"),
        (100, None, 99.9, "active"),
        (100, None, 100.0, "expired"),
        (None, 50, 0.0, "revoked"),  # a clock that is set back does not undo a revocation
        (100, 50, 200.0, "revoked"),
    ],
)
def test_a_token_is_active_until_it_expires_or_is_revoked(
    expires_at: int | None, revoked_at: int | None, now: float, state: str
) -> None:
    record = TokenRecord("a", b"", frozenset(), 0, expires_at, revoked_at)

    assert record.state(now) == state


def test_a_token_is_redacted_at_every_place_of_a_text() -> None:
    token = mint()

    assert redact(f"/plants/{token}?x={token}") == "/plants/plst_...?x=plst_..."
    assert redact(token[:-1]) == redact(f"{token}0") == "plst_..."
    assert redact("/plants/plst_") == "/plants/plst_"


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "_": lambda token: token.replace("_", "%5F"),
    "_ twice": lambda token: token.replace("_", "%255f"),
    "all": percent,
    "all in JSON": escaped,
    "within": lambda token: f"{token[:20]}%FF{token[20:]}",
    "in upper case": str.upper,
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
def test_a_token_is_redacted_in_every_encoding(encode: Callable[[str], str]) -> None:
    token = mint()

    shown = redact(f"got {encode(token)} - at `id`")

    assert shown == "got plst_... - at `id`"


@pytest.mark.parametrize(
    "text", ["/%1B", "100%", "%25", "\\u0000", "\\ud800", "%zz", "plst", "%70lst_", "a\nb%20c"]
)
def test_a_text_without_a_token_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(st.text(alphabet="%\\\\u0257pFlst_ a/5f", max_size=60))
def test_redacting_a_second_time_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


# How the uses of a token are counted, for one rate or several.


def test_each_of_several_rates_is_enforced() -> None:
    for rates in ("2/hour;3/day", "3/minute;2/hour"):
        limit = RatePerToken(rates)
        limit.spend("a")
        limit.spend("a")
        with pytest.raises(RequestError, match="at most") as refused:
            limit.spend("a")

        assert refused.value.message == "The token may be used at most 2/hour"


def test_uses_that_one_rate_refuses_are_not_counted_for_another() -> None:
    limit = RatePerToken("4/day;3/2 days")
    limit.spend("a", 2)
    with pytest.raises(RequestError, match="at most"):
        limit.spend("a", 2)

    limit.spend("a", 1)

    assert limit.burst_max == 3
    with pytest.raises(RequestError, match="at most"):
        limit.spend("a", 1)


@pytest.mark.parametrize("uses", [1, 2, 3, 5])
@pytest.mark.parametrize("begin", [0.0, 31.0, 59.5])
def test_a_token_may_be_used_again_after_retry_after_and_not_a_second_before(
    begin: float, uses: int
) -> None:
    now = 1_000_000.0 * 60 + begin
    limit = RatePerToken("5/minute", lambda: now)
    for _ in range(20):
        with contextlib.suppress(RequestError):
            limit.spend("a")
    for _ in range(10):
        with pytest.raises(RequestError, match="at most") as refused:
            limit.spend("a", uses)
        wait = int(refused.value.headers["Retry-After"])
        assert 1 <= wait <= 120
        now += wait - 1
        if wait > 1:
            with pytest.raises(RequestError, match="at most"):
                limit.spend("a", uses)
        now += 1
        limit.spend("a", uses)
        with contextlib.suppress(RequestError):
            limit.spend("a", 5 - uses + 1)


@pytest.mark.parametrize(
    "rate", ["3/2 days", "3 per 2 days", "3PER2DAY", "9/second,3/2days", "9/second | 3 / 2 Days"]
)
def test_a_rate_is_written_in_several_ways(rate: str) -> None:
    assert parse_rates(rate)[-1][:2] == (3, 2 * 24 * 60 * 60)


@pytest.mark.parametrize(
    "rate", ["", "100", "x/second", "0/second", "5/second;0/hour", "-1/second", "1/fortnight", ";"]
)
def test_an_invalid_rate_is_refused(rate: str) -> None:
    with pytest.raises(UsageError, match="must be a number above 0 and a time, as in"):
        RatePerToken(rate)


def test_more_uses_than_the_rate_has_are_counted_if_there_were_none() -> None:
    now = 1_000_000.0
    limit = RatePerToken("1/second", lambda: now)

    limit.spend("a", 2)

    with pytest.raises(RequestError, match="at most"):
        limit.spend("a")
    now += 3
    limit.spend("a")
