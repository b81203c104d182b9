"""Options that `plantstore import` and `plantstore export` share."""

from enum import Enum
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from plantstore.errors import UsageError
from plantstore.formats import FORMATS, Format


class FormatName(Enum):
    """The values of `--format`."""

    CSV = "csv"
    JSONL = "jsonl"


FileFormat: TypeAlias = Annotated[
    FormatName | None,
    typer.Option("--format", help="Format of the file. Default: by its name."),
]

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Use the service at this URL instead of a database, such as https://garden.example.",
    ),
]

TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="With --url: a file that contains the token."),
]

Ca: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="With --url: certificates of the authorities to trust, in PEM. Default: those of "
        "the system.",
    ),
]


def format_of(file: Path, name: FormatName | None) -> Format:
    """Return the format of a file, by the option or by the name of the file.

    Raises:
        UsageError: it is unknown.

    """
    key = file.suffix.removeprefix(".").lower() if name is None else name.value
    if key not in FORMATS:
        raise UsageError(
            f"The format of {file} is unknown: name the file .csv or .jsonl, or give --format"
        )
    return FORMATS[key]


def refuse_contradictions(context: typer.Context, *, only_local: set[str]) -> None:
    """Refuse options of the command line that have no effect with, or without, `--url`.

    Args:
        context: of the command.
        only_local: the parameters that have no effect with `--url`.

    Raises:
        UsageError: such an option is given.

    """
    is_remote = context.params["url"] is not None
    for name in only_local if is_remote else {"token_file", "ca"}:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            advice = "has no effect with --url" if is_remote else "needs --url"
            raise UsageError(f"{option} {advice}")
