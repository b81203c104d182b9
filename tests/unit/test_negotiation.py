"""Which media type and which coding a client prefers (RFC 9110 §12.5.1 and §12.5.3)."""

import asyncio
import gzip

import pytest

from plantstore.api.negotiation import (
    COMPRESSED_BYTES_MIN,
    Compressor,
    choose_media_type,
    prefers_gzip,
)

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@pytest.mark.parametrize(
    "accept",
    [
        *("application/openmetrics-text", "application/*", "*/*, text/plain;q=0.5"),
        "Application/OpenMetrics-Text; Version=1.0.0; Q=1",
        'application/openmetrics-text; version="1.0.0"',
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6, */*;q=0.2",
        "text/plain;q=0.5, application/openmetrics-text;q=0.6",
        "text/plain;q=0, */*;q=0.1",
        # Empty elements of a list are ignored (RFC 9110 §5.6.1.2), and so is a malformed range.
        ", ,application/openmetrics-text, ,text/plain;q=0.5,",
        "application/openmetrics-text; ;q=0.5;, text/plain;q=0.4",
        "application/openmetrics-text;q=0.5, text/plain;q=2",
        "application/openmetrics-text, garbage",
        'application/openmetrics-text;q=0.5, text/html;a="b,text/plain", text/plain;q=0.4',
        # The most specific range has the weight, wherever it stands.
        "*/*;q=0.9, text/*;q=0.1, application/openmetrics-text;q=0.5",
        "application/openmetrics-text;q=1., text/plain;q=0.999",
    ],
)
def test_the_media_type_with_the_greatest_weight_is_chosen(accept: str) -> None:
    assert choose_media_type([TEXT, OPENMETRICS], accept) == OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        *("", "*", "*/*", "text/html, */*;q=0.8", "application/openmetrics-text;q=0, */*"),
        "application/openmetrics-text;q=0.5, text/*;q=0.6",
        "text/plain;q=0.1, text/plain;version=0.0.4;q=0.9, application/openmetrics-text;q=0.5",
        'application/openmetrics-text;a=";q=1";q=0.5, text/plain;q=0.6',
        "application/openmetrics-text;version=0.0.1, text/plain;version=0.0.4;q=0.5, */*;q=0.1",
        # Neither is acceptable:
        "application/openmetrics-text;version=2.0.0",
        *("application/json", "*/*;q=0"),
        # Malformed:
        *(",", ";", '"', "*/openmetrics-text", "\xe9/\xff"),
        *(f"application/openmetrics-text;q={each}" for each in ("2", "nan", "0.5.5", "+1", "1e0")),
        *(f"application/openmetrics-text;{each}" for each in ("q=\xb9", "q=", "q")),
        'application/openmetrics-text;a="b;q=0.5',
        'application/openmetrics-text;version="1',
        "application/openmetrics-text," * 1000,
        # With backtracking it would take hours.
        "application/openmetrics-text" + ";  " * 600 + "x",
    ],
)
def test_the_first_media_type_is_chosen_if_it_is_preferred_or_none_is_acceptable(
    accept: str,
) -> None:
    assert choose_media_type([TEXT, OPENMETRICS], accept) == TEXT


@pytest.mark.parametrize(
    "accept_encoding",
    [
        *("gzip", "GZip", "x-gzip", "gzip;q=0, x-gzip", "gzip, deflate, br, zstd", ", gzip,,"),
        *("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip;q=0.001", "deflate,gzip;q=1.000"),
        *("gzip ; q=0.5", "gzip;Q=0.5", "*", "*;q=0.5", "deflate, *;q=0.5"),
        *("identity;q=0.5, gzip;q=0.5", "gzip, identity;q=0"),
    ],
)
def test_gzip_is_used_if_the_client_rates_it_at_least_as_high_as_identity(
    accept_encoding: str,
) -> None:
    assert prefers_gzip(accept_encoding)


@pytest.mark.parametrize(
    "accept_encoding",
    [
        *(None, "", " ", "identity", "identity;q=0", "deflate", "br, zstd", "gzipped"),
        *("gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *"),
        *("identity, gzip;q=0.5", "identity;q=0.6, *;q=0.5"),
        # Malformed:
        *("gzip;q=2", "gzip;q=-1", "gzip;q=x", "gzip;q=", "gzip;q=0.1234", "gzip;level=1"),
        *("gzip deflate", '"gzip"', ";", "\xe9", "gzip" + ", br" * 1000),
    ],
)
def test_gzip_is_not_used_if_it_is_refused_malformed_or_rated_below_identity(
    accept_encoding: str | None,
) -> None:
    assert not prefers_gzip(accept_encoding)


def test_responses_beyond_the_limit_of_waiting_bytes_are_sent_uncompressed() -> None:
    data = b"a" * COMPRESSED_BYTES_MIN

    async def compress() -> list[bytes | None]:
        compressor = Compressor(waiting_bytes_max=3 * len(data))
        first = await asyncio.gather(*(compressor.compress(data) for _ in range(5)))
        return [*first, await compressor.compress(data)]

    made = asyncio.run(compress())

    assert [each is None for each in made] == [False, False, False, True, True, False]
    assert [gzip.decompress(each) for each in made if each is not None] == [data] * 4
