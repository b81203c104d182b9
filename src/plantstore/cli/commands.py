"""Adds to each usage error the command that prints the right help page."""

from typing import Any

import click

from plantstore.errors import UsageError


class Commands(click.Group):
    """A group of commands. It adds to each usage error a note with the command that raised it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (as click declares it)
        """Return the names of the commands in the order in which they were added."""
        return [*self.commands]

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401 (as click declares it)
        """Run the command that the context names."""
        try:
            return super().invoke(ctx)
        except (UsageError, click.ClickException) as error:
            error.add_note(" ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand))))
            raise


def with_hint(message: str, error: Exception) -> str:
    """Return the message of a usage error, and the command that prints the right help page."""
    notes: list[str] = getattr(error, "__notes__", [])
    command = notes[0] if notes else "plantstore"
    end = "" if message.endswith((".", "?", "?)")) else "."
    return f"{message}{end} Try '{command} --help'"
