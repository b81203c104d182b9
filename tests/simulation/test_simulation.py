"""The whole service, simulated for new seeds. `make simulate` runs more of them."""

import logging
import random
from collections.abc import Iterator

import pytest

from simulation.run import describe, simulate

SEEDS = 40
SEEDS_AT_ONCE = 10


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    """Write no log: errors of the disk are expected."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("_part", range(SEEDS // SEEDS_AT_ONCE))
def test_the_service_keeps_its_promises_whatever_happens_in_whatever_order(_part: int) -> None:
    for _ in range(SEEDS_AT_ONCE):
        result = simulate(random.SystemRandom().getrandbits(40))

        assert not result.violations, describe(result)


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = simulate(3), simulate(3)

    assert first.trace == second.trace
    assert len(first.trace) > 100
