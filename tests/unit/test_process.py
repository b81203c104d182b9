"""The folder that the workers of a service share."""

import os
from pathlib import Path

from plantstore.server.process import shared_folder


def test_the_folder_of_a_service_that_was_killed_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    killed, mine = tmp_path / "plantstore-workers-killed", tmp_path / "plantstore-mine"
    for folder in (killed, mine):
        folder.mkdir()
        (folder / "counter_1.db").touch()
    with shared_folder(tmp_path) as first:
        for folder in (killed, mine, first):
            os.utime(folder, (0, 0))

        with shared_folder(tmp_path) as second:
            assert {*tmp_path.iterdir()} == {mine, first, second}

    assert [*tmp_path.iterdir()] == [mine]
