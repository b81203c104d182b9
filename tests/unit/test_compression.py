"""Accept-Encoding (RFC 9110 §12.5.3), and the limit on data that waits to be compressed."""

import asyncio
import gzip

import pytest

from plantstore.api.negotiation import COMPRESSED_BYTES_MIN, Compressor, prefers_gzip


@pytest.mark.parametrize(
    "accept_encoding",
    [
        "gzip",
        "GZip",
        "x-gzip",
        "gzip, deflate, br, zstd",
        "br;q=1.0, gzip;q=0.8, *;q=0.1",
        "gzip;q=0.001",
        "deflate,gzip;q=1.000",
        "gzip ; q=0.5",
        "gzip;Q=0.5",
        "*",
        "*;q=0.5",
        "deflate, *;q=0.5",
        "identity;q=0.5, gzip;q=0.5",
        "gzip, identity;q=0",
        ", gzip,,",
        "gzip;q=0, x-gzip",
    ],
)
def test_gzip_is_used_if_the_client_rates_it_at_least_as_high_as_identity(
    accept_encoding: str,
) -> None:
    assert prefers_gzip(accept_encoding)


@pytest.mark.parametrize(
    "accept_encoding",
    [
        None,
        "",
        " ",
        "identity",
        "identity;q=0",
        "deflate",
        "br, zstd",
        "gzip;q=0",
        "gzip;q=0.000",
        "*;q=0",
        "gzip;q=0, *",
        "identity, gzip;q=0.5",
        "identity;q=0.6, *;q=0.5",
        "gzipped",
        # Malformed:
        "gzip;q=2",
        "gzip;q=-1",
        "gzip;q=x",
        "gzip;q=",
        "gzip;q=0.1234",
        "gzip;level=1",
        "gzip deflate",
        '"gzip"',
        ";",
        "\xe9",
        "gzip" + ", br" * 1000,
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
