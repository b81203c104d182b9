"""How far a command has come, on stderr, if that is a terminal."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Protocol


class Report(Protocol):
    """Is told what is done, of what in all (None if that is not known), and the plants in it."""

    def __call__(self, done: int, total: int | None, plants: int | None = None) -> None:
        """Show it."""


@contextlib.contextmanager
def progress(what: str) -> Iterator[Report]:
    """Show a bar, a rate and the time left while the block runs; nothing but on a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total, plants=None: None  # noqa: ARG005
        return
    # It takes a while to load, and most commands run where nobody watches.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as bars:
        bars.add_task(what, total=None, rate="")
        [task] = bars.tasks

        def report(done: int, total: int | None, plants: int | None = None) -> None:
            rate = ""
            if plants is not None:
                rate = f"{plants:,} plants, {plants / (task.elapsed or 1):,.0f}/s"
            bars.update(task.id, completed=done, total=total, rate=rate)

        yield report
