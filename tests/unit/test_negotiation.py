"""Whether a client accepts gzip (RFC 9110 §12.5.3), and the limit of what is compressed."""

import asyncio
import gzip

import pytest
from falcon.testing import create_asgi_req

from plantstore.api.negotiation import (
    COMPRESSED_BYTES_MIN,
    Compressor,
    accepts_gzip,
)


@pytest.mark.parametrize(
    ("accept_encoding", "is_accepted"),
    [
        *((each, True) for each in ("gzip", "GZip", "gzip, deflate, br, zstd", ", gzip,,")),
        *((each, True) for each in ("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip;q=0.001")),
        *((each, True) for each in ("deflate,gzip;q=1.000", "gzip ; q=0.5", "gzip;Q=0.5")),
        *((each, False) for each in ("", " ", "identity", "deflate", "br, zstd", "gzipped")),
        *((each, False) for each in ("gzip;q=0", "gzip;q=0.", "gzip;q=0.000", "*", "gzip;q=0, *")),
        # Malformed:
        *((f"gzip;{each}", False) for each in ("q=2", "q=-1", "q=x", "q=", "q=0.1234", "level=1")),
        *((each, False) for each in ("gzip deflate", '"gzip"', ";", "\xe9")),
    ],
)
def test_gzip_is_used_if_the_client_names_it_with_a_weight_above_0(
    accept_encoding: str,
    is_accepted: bool,  # noqa: FBT001 (pytest passes it by name)
) -> None:
    req = create_asgi_req(headers={"Accept-Encoding": accept_encoding})

    assert accepts_gzip(req) is is_accepted


def test_without_accept_encoding_gzip_is_not_used() -> None:
    assert not accepts_gzip(create_asgi_req())


def test_responses_beyond_the_limit_of_waiting_bytes_are_sent_uncompressed() -> None:
    data = b"a" * COMPRESSED_BYTES_MIN

    async def compress() -> list[bytes | None]:
        compressor = Compressor(waiting_bytes_max=3 * len(data))
        first = await asyncio.gather(*(compressor.compress(data) for _ in range(5)))
        return [*first, await compressor.compress(data)]

    made = asyncio.run(compress())

    assert [each is None for each in made] == [False, False, False, True, True, False]
    assert [gzip.decompress(each) for each in made if each is not None] == [data] * 4
