"""Adds to each usage error the command that prints the right help page."""

from typing import Any

import typer
from typer.core import TyperGroup

from plantstore.errors import UsageError


class Commands(TyperGroup):
    """A group of commands. It adds to each usage error a note with the command that raised it."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 (Typer exports no types of these)
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except (UsageError, typer.TyperException) as error:
            error.add_note(" ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand))))
            raise


def with_hint(message: str, error: Exception) -> str:
    """Return the message of a usage error, and the command that prints the right help page."""
    notes: list[str] = getattr(error, "__notes__", [])
    command = notes[0] if notes else "plantstore"
    return f"{message.removesuffix('.')}. Try '{command} --help'"
