"""The command line: a file for each verb, and one line on stderr for each error."""

import functools
import inspect
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
from plantstore.cli.maintenance import backup, check, migrate
from plantstore.cli.tokens import tokens
from plantstore.cli.transfer import export, import_plants
from plantstore.errors import PlantStoreError
from plantstore.settings import Settings

app = typer.Typer(
    name="plantstore",
    help="A small service that stores plants behind POST /plants, durably before it answers.",
    add_completion=False,
)


def _with_settings(run: Callable[[Settings], None]) -> Callable[..., None]:
    """Make a command of a function: its options are the settings, declared where they are."""

    @functools.wraps(run)
    def command(**values: Any) -> None:  # noqa: ANN401 (the fields of Settings)
        run(Settings(**values))

    command.__annotations__ = typing.get_type_hints(Settings, include_extras=True)
    command.__signature__ = inspect.signature(Settings)  # type: ignore[attr-defined]
    return command


@app.command()
@_with_settings
def serve(settings: Settings) -> None:
    """Serve plants over HTTP until told to stop (SIGTERM, or Ctrl-C)."""
    # The server takes longer to load than most other commands take in all.
    from plantstore.cli.serve import run  # noqa: PLC0415

    run(settings)


app.add_typer(tokens, name="token")
app.command("import")(import_plants)
app.command()(export)
app.command()(backup)
app.command()(check)
app.command()(migrate)


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


def _exit(number: int, frame: FrameType | None) -> None:
    """End the program; if it is in a finalizer, which would swallow that, a moment later."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
            return
        frame = frame.f_back
    sys.exit(128 + number)


def main() -> int:
    """Run the command line; return the exit status: 0, 1 for an error, 2 for bad usage."""
    signal.signal(signal.SIGTERM, _exit)  # in good order, so that nothing is left half done
    logging.lastResort = None  # what the libraries warn of is not for who runs a command
    try:
        return app(sys.argv[1:] or ["--help"], standalone_mode=False) or 0
    except PlantStoreError as error:
        message, status = error.explanation, 1
    except OSError as error:
        message, status = f"{error.filename or 'input or output'}: {error.strerror}", 1
    except typer.TyperException as error:
        message, status = error.format_message(), error.exit_code
    typer.echo(f"plantstore: {message}", err=True)
    return status
