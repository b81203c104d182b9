"""The whole service, simulated for an hour from new seeds."""

import random
import time

from simulation.run import describe, simulate

SECONDS = 3600


def test_no_seed_of_an_hour_violates_a_promise() -> None:
    first = random.SystemRandom().getrandbits(40)
    ends = time.monotonic() + SECONDS
    seed = first
    while time.monotonic() < ends:
        result = simulate(seed)

        assert not result.violations, describe(result)
        seed += 1
