"""The command line: one module for each group of commands.

Each error is one line on stderr. The exit status is 2 if the usage is wrong, so that a
service manager does not try again, and 1 for any other error.
"""

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import click

from plantstore import __version__
from plantstore.cli.maintenance import backup, check, migrate, reindex, stats
from plantstore.cli.options import settings
from plantstore.cli.token_commands import tokens
from plantstore.cli.transfer import export, import_plants
from plantstore.cli.undo import undo
from plantstore.errors import PlantStoreError, UsageError
from plantstore.settings import Settings, unknown_variables


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A small HTTP service that stores plants durably before it responds.",
)
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Warn of variables that are named like a setting, but are none. `serve` logs the warnings."""
    if context.invoked_subcommand != "serve":
        for warning in unknown_variables():
            click.echo(f"plantstore: {warning}", err=True)


@app.command()
@settings()
def serve(**values: Any) -> None:  # noqa: ANN401 (the fields of Settings)
    """Serve plants over HTTP until SIGTERM or Ctrl-C."""
    # Imported late: loading the server takes longer than most other commands take.
    from plantstore.cli.serve import run  # noqa: PLC0415

    run(Settings(**values))


for command in (import_plants, undo, export, backup, check, reindex, stats, migrate, tokens):
    app.add_command(command)


def _exit(number: int, _frame: object) -> NoReturn:
    sys.exit(128 + number)


def main() -> int:
    """Run the command line; return the exit status: 0, 1 for an error, 2 for wrong usage."""
    try:
        return _run()
    finally:
        _flush()


def _run() -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as after nohup
            signal.signal(number, _exit)  # run the cleanup of commands
    logging.lastResort = None  # warnings of libraries are not for users of commands
    try:
        arguments = sys.argv[1:] or ["--help"]
        return app(arguments, "plantstore", standalone_mode=False) or 0
    except PlantStoreError as error:
        message, status = error.explanation, 2 if isinstance(error, UsageError) else 1
    except OSError as error:
        message, status = f"{error.filename or 'input or output'}: {error.strerror}", 1
    except click.Abort:  # Ctrl-C
        message, status = "Interrupted", 130
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "plantstore"
        message, status = f"{error.format_message()} Try '{command} --help'", 2
    with contextlib.suppress(OSError):  # stderr may be what cannot be written
        click.echo(f"plantstore: {message}", err=True)
    return status


def _flush() -> None:
    """Discard what cannot be written. Python would exit with 120, and write of an exception."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            with Path(os.devnull).open("wb") as nothing:
                os.dup2(nothing.fileno(), stream.fileno())
