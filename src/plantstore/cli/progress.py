"""The progress bar of a command, on stderr if that is a terminal."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol


class Report(Protocol):
    """Takes the amount done, the total amount (None if unknown), and the number of plants."""

    def __call__(self, done: int, total: int | None, plants: int | None = None) -> None:
        """Update the progress bar."""


@contextlib.contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a bar, the rate and the remaining time while the block runs, if on a terminal."""
    if not sys.stderr.isatty():
        yield _show_nothing
        return
    # Imported late: it is slow to load, and most commands do not run on a terminal.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    console = Console(stderr=True)
    if console.is_dumb_terminal:  # it cannot overwrite a line
        yield _show_nothing
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=console,
    ) as bars:
        bars.add_task(what, total=None, rate="")
        [task] = bars.tasks

        def report(done: int, total: int | None, plants: int | None = None) -> None:
            rate = ""
            if plants is not None:
                rate = f"{plants:,} plants, {plants / (task.elapsed or 1):,.0f}/s"
            bars.update(task.id, completed=done, total=total, rate=rate)

        yield report


def _show_nothing(done: int, total: int | None, plants: int | None = None) -> None:
    """Ignore a report."""
