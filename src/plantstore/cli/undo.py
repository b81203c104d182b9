"""`plantstore undo`: gives the plants of a change set back what they were."""

from collections.abc import Callable, Sequence
from functools import partial

import click

from plantstore.change_sets import UndoCounts, Walk, is_name, settle
from plantstore.changes import Result, Swap
from plantstore.cli.opening import opened_store, progress
from plantstore.cli.options import settings
from plantstore.cli.transfer import apply_all
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.decision import decide
from plantstore.errors import BatchRefusedError, UsageError, quoted
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import PlantStore


@click.command()
@click.argument("set_name", metavar="SET", help="The name of the set, which `import` has printed.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Change no plant, and print what would become of them. The set is closed.",
)
@settings("database", "standbys_min")
def undo(set_name: str, *, dry_run: bool, database: str, standbys_min: int) -> None:
    """Undo an import, or another change set.

    Each plant gets back what it was before, unless it was changed since. If the command is
    interrupted, run it again.
    """
    if not is_name(set_name):
        raise UsageError(f"{quoted(set_name)} is not the name of a set")
    counts = UndoCounts()
    with opened_store(database, SchemaPolicy.REQUIRE, standbys_min=standbys_min) as store:
        total = store.read_set(set_name, None, 0).total
        store.close_set(set_name)
        try:
            _walk(store, set_name, total, partial(_try if dry_run else apply_all, store), counts)
        finally:
            click.echo(f"{'Dry run: ' if dry_run else ''}{_describe(counts)}")


def _walk(
    store: PlantStore,
    name: str,
    total: int,
    apply: Callable[[Sequence[Swap]], Sequence[Result | BatchRefusedError]],
    counts: UndoCounts,
) -> None:
    walk, done = Walk(), 0
    with progress("Undoing") as report:
        while not walk.is_over:
            page = store.read_set(name, walk.place, BATCH_ROWS_MAX)
            if swaps := walk.take(page):
                settle(counts, swaps, apply(swaps))
            done += len(page.changes)
            report(done, total)


def _try(store: PlantStore, swaps: Sequence[Swap]) -> list[Result]:
    return decide(swaps, store.find_plants([swap.id for swap in swaps]))[0]


def _describe(counts: UndoCounts) -> str:
    parts = {
        "restored": counts.restored,
        "deleted": counts.deleted,
        "stored again": counts.recreated,
        "kept, because they were changed since": counts.kept,
    }
    return ", ".join(f"{many:,} {what}" for what, many in parts.items())
