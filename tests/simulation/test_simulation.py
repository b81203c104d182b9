"""The whole service, simulated for fixed seeds. `make simulate` runs others."""

import logging
from collections.abc import Iterator

import pytest

from simulation.run import describe, simulate

SEEDS = 200
SEEDS_AT_ONCE = 10


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    """Write no log: errors of the disk are expected."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_AT_ONCE))
def test_the_service_keeps_its_promises_whatever_happens_in_whatever_order(first: int) -> None:
    for seed in range(first, first + SEEDS_AT_ONCE):
        result = simulate(seed)

        assert not result.violations, describe(result)


def test_the_same_seed_gives_the_same_trace() -> None:
    first, second = simulate(3), simulate(3)

    assert first.trace == second.trace
    assert len(first.trace) > 100
