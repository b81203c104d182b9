"""Many imports at the same time, beside single creates."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.service import Service, stored_plants
from support.streams import NONE, import_once, lines

IMPORTS = 20
ROWS = 3_500


@pytest.mark.engines("sqlite", "postgres")
def test_twenty_imports_at_once_are_counted_each_and_no_single_create_is_refused(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service, ThreadPoolExecutor(IMPORTS) as pool:
        token = service.token()
        load = Load(service, token, -100_000_000)
        load.wait_for_more()
        sent = [
            pool.submit(import_once, service, token, lines(first + 1, first + ROWS))
            for first in range(0, IMPORTS * 10_000, 10_000)
        ]
        answers = [each.result(60) for each in sent]
        load.stop()
        stored = stored_plants(service.database)

    counts = NONE | {"stored": ROWS, "errors": []}
    assert [(answer.status, answer.json) for answer in answers] == [(200, counts)] * IMPORTS
    assert load.refused == []
    assert len(load.acknowledged) > 100
    assert stored == load.acknowledged | {
        id_: NewPlant(id_, "a")
        for first in range(0, IMPORTS * 10_000, 10_000)
        for id_ in range(first + 1, first + ROWS + 1)
    }
