"""Undos: random ones against a model, and hundreds of kills."""

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from plantstore.storage import open_store
from support.change_sets import Sets, play
from support.undo_crashes import UndoCrashes

# Of each engine.
SEQUENCES = 5_000


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_random_sequences_of_sets_changes_and_undos_do_what_a_model_does(
    request: pytest.FixtureRequest, tmp_path: Path, engine: str, soak: Any
) -> None:
    is_postgres = engine == "postgres"
    url = request.getfixturevalue("url") if is_postgres else f"sqlite:///{tmp_path}/plants.db"

    with contextlib.closing(open_store(url)) as store:
        store.keep_changes(7)
        for seed in range(SEQUENCES):
            play(store, Sets(random.Random(1000 + seed), f"{seed}-"), steps=20)
        problems = store.check().problems

    soak.add(
        f"sequences of sets and undos on {engine}",
        faults=SEQUENCES,
        acknowledged=None,
        lost=len(problems),
    )
    assert problems == []


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    """Return the URL of an empty database, or None for SQLite in the folder of the test."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.mark.parametrize(
    ("database", "workers", "rounds"),
    [("sqlite", 1, 50), ("sqlite", 3, 20), ("postgres", 2, 30)],
    indirect=["database"],
)
def test_an_undo_that_is_killed_is_completed_by_sending_it_again(
    tmp_path: Path, soak: Any, database: str | None, workers: int, rounds: int
) -> None:
    crashes = UndoCrashes(tmp_path, workers, database)

    for _ in range(rounds):
        crashes.play_round()

    soak.add(
        f"kill -9 during undos, with {workers} worker{'s' if workers > 1 else ''}"
        f"{' on PostgreSQL' if database else ''}",
        faults=rounds,
        acknowledged=rounds,
        lost=len(crashes.wrong),
    )
    assert crashes.wrong == []
    assert len(set(crashes.kept)) > 3, "the kills were not at different moments"
