"""The command line: a file for each verb, and one line on stderr for each error."""

import sys
from typing import Annotated

import typer

from plantstore import __version__
from plantstore.cli.serve import serve
from plantstore.cli.tokens import tokens
from plantstore.errors import PlantStoreError

app = typer.Typer(
    name="plantstore",
    help="A small service that stores plants behind POST /plants, durably before it answers.",
    add_completion=False,
)
app.command()(serve)
app.add_typer(tokens, name="token")


def _print_version(asked: bool) -> None:  # noqa: FBT001 (Typer calls it so)
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Hold the options that come before a command."""


def main() -> int:
    """Run the command line; return the exit status: 0, 1 for an error, 2 for bad usage."""
    try:
        return app(sys.argv[1:] or ["--help"], standalone_mode=False) or 0
    except PlantStoreError as error:
        message, status = error.message, 1
    except typer.TyperException as error:
        message, status = error.format_message(), error.exit_code
    typer.echo(f"plantstore: {message}", err=True)
    return status
