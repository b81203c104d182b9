"""A million valid and invalid bodies against one real server."""

from pathlib import Path
from typing import Any

from support.flood import Flood
from support.service import Service, stored_plants

BODIES = 1_000_000

# An idle server uses about 60 MiB. The rest is for the queue and for SQLite, which are bounded.
PEAK_MIB_MAX = 160


def test_a_million_bodies_are_answered_as_the_reference_parser_predicts(
    tmp_path: Path, soak: Any
) -> None:
    with Service(tmp_path) as service:
        flood = Flood(service, 1, BODIES)
        peak = service.peak_mib()

    assert flood.answers.total() == BODIES
    assert {status for status, _ in flood.answers} == {200, 400, 413, 415}
    stored = stored_plants(service.database)
    missing = flood.stored.keys() - stored.keys()
    soak.add(
        "a million request bodies, valid and invalid",
        faults=BODIES - sum(count for (status, _), count in flood.answers.items() if status == 200),
        acknowledged=len(flood.stored),
        lost=len(missing),
    )
    assert stored == flood.stored
    assert not service.has_logged("failed")
    assert peak < PEAK_MIB_MAX, f"the server had {peak:.0f} MiB"
