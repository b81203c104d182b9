"""What the long suite found, as a table: `make soak` leaves it in benchmarks/results/."""

import time
from collections.abc import Iterator

import pytest

from harness import table, write_result


class Soak:
    """The rows of the table."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.began = time.monotonic()

    def add(self, what: str, *, faults: int, acknowledged: int, lost: int) -> None:
        """Add what one test injected, how many requests were acknowledged, and how many lost."""
        seconds = time.monotonic() - self.began
        self.began = time.monotonic()
        self.rows.append(
            [what, f"{faults:,}", f"{acknowledged:,}", f"{lost:,}", f"{seconds:,.0f} s"]
        )


@pytest.fixture(scope="session")
def all_rows(request: pytest.FixtureRequest) -> Iterator[Soak]:
    soak = Soak()
    yield soak
    failed = request.session.testsfailed
    write_result(
        "soak",
        "# The long suite\n\n"
        + table(["what", "faults or inputs", "acknowledged", "lost", "duration"], soak.rows)
        + f"\n\n{'Every test passed' if not failed else f'{failed} tests failed'}."
        " `make soak` repeats it, with the same seeds.",
    )


@pytest.fixture
def soak(all_rows: Soak) -> Soak:
    """Return what a test adds a row to, whose duration counts from here."""
    all_rows.began = time.monotonic()
    return all_rows
