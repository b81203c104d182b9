"""Valid and invalid bodies against the real server; tests/long sends a million more."""

from pathlib import Path

from support.flood import Flood
from support.service import Service, stored_plants

BODIES = 3_000


def test_every_body_is_answered_as_the_reference_parser_predicts(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        flood = Flood(service, 1_000, BODIES)

    assert flood.answers.total() == BODIES
    assert {200, 400, 415} <= {status for status, _ in flood.answers}
    assert stored_plants(service.database) == flood.stored
    assert not any("failed" in line for line in service.log)
