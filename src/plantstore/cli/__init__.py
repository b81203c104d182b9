"""The command line: one module for each group of commands.

Each error is one line on stderr. The exit status is 2 if the usage is wrong, so that a
service manager does not try again, and 1 for any other error.
"""

import functools
import inspect
import json
import logging
import os
import signal
import sys
import threading
import typing
from collections.abc import Callable
from types import FrameType
from typing import Annotated, Any

import typer

from plantstore import __version__
from plantstore.cli.commands import Commands, with_hint
from plantstore.cli.exporting import export
from plantstore.cli.importing import import_plants
from plantstore.cli.maintenance import backup, check, migrate, stats
from plantstore.cli.tokens import tokens
from plantstore.errors import PlantStoreError, UnsupportedError, UsageError
from plantstore.settings import Settings

app = typer.Typer(
    name="plantstore",
    help="A small HTTP service that stores plants durably before it answers.",
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,  # its tables would cut option names at 80 columns
)


def _with_settings(run: Callable[[Settings], None]) -> Callable[..., None]:
    """Return a command whose options are the fields of Settings."""

    @functools.wraps(run)
    def command(**values: Any) -> None:  # noqa: ANN401 (the fields of Settings)
        run(Settings(**values))

    command.__annotations__ = typing.get_type_hints(Settings, include_extras=True)
    command.__signature__ = inspect.signature(Settings)  # type: ignore[attr-defined]
    return command


@app.command()
@_with_settings
def serve(settings: Settings) -> None:
    """Serve plants over HTTP until SIGTERM or Ctrl-C."""
    # Imported late: loading the server takes longer than most other commands take.
    from plantstore.cli.serve import run  # noqa: PLC0415

    run(settings)


app.add_typer(tokens, name="token")
app.command("import")(import_plants)
app.command()(export)
app.command()(backup)
app.command()(check)
app.command()(stats)
app.command()(migrate)


def _print_version(asked: bool) -> None:  # noqa: FBT001 (Typer calls it so)
    if asked:
        from plantstore.api.openapi import read_document  # noqa: PLC0415 (it loads Falcon)

        interface = json.loads(read_document())["info"]["version"]
        typer.echo(f"plantstore {__version__}, interface {interface}")
        raise typer.Exit


@app.callback()
def common(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the versions of the software and of the interface, and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Declare the options that are given before a command."""


def _exit(number: int, frame: FrameType | None) -> None:
    """Exit; if a finalizer runs, which would ignore SystemExit, try again a moment later."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
            return
        frame = frame.f_back
    sys.exit(128 + number)


def main() -> int:
    """Run the command line; return the exit status: 0, 1 for an error, 2 for wrong usage."""
    signal.signal(signal.SIGTERM, _exit)  # run the cleanup of commands
    logging.lastResort = None  # warnings of libraries are not for users of commands
    try:
        arguments = sys.argv[1:] or ["--help"]
        return app(arguments, prog_name="plantstore", standalone_mode=False) or 0
    except UnsupportedError as error:  # the help does not help
        message, status = error.explanation, 2
    except UsageError as error:
        message, status = with_hint(error.explanation, error), 2
    except PlantStoreError as error:
        message, status = error.explanation, 1
    except OSError as error:
        message, status = f"{error.filename or 'input or output'}: {error.strerror}", 1
    except typer.TyperException as error:
        message, status = with_hint(error.format_message(), error), error.exit_code
    typer.echo(f"plantstore: {message}", err=True)
    return status
