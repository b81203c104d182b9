"""Options that several commands have."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

import click

from plantstore.errors import UsageError
from plantstore.formats import FORMATS, Format
from plantstore.settings import Option, Settings, variable_of

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

FILE: Final = click.Path(path_type=Path)

_TYPES: Final = get_type_hints(Settings)
_FIELDS: Final = {field.name: field for field in fields(Settings)}


def settings(*names: str) -> Callable[[CommandT], CommandT]:
    """Return a decorator that gives a command the options of these settings, or of all."""

    def add_options(command: CommandT) -> CommandT:
        for name in reversed(names or tuple(_TYPES)):
            command = _setting(name)(command)
        return command

    return add_options


def _setting(name: str) -> Callable[[CommandT], CommandT]:
    type_, default = _TYPES[name], _FIELDS[name].default
    option: Option = _FIELDS[name].metadata["option"]
    flag = name.replace("_", "-")
    switch = "on" if default else "off"
    return click.option(
        f"--{flag}/--no-{flag}" if type_ is bool else f"--{flag}",
        type=_type_of(type_, option),
        multiple=type_ == tuple[str, ...],
        default=default,
        show_default=switch if type_ is bool else default not in (None, ()),
        envvar=variable_of(name),
        show_envvar=True,
        metavar=option.metavar,
        help=option.help,
    )


def _type_of(type_: Any, option: Option) -> click.ParamType[Any]:  # noqa: ANN401 (any type)
    if option.parse is not None:
        return click.types.FuncParamType(option.parse)
    if type_ is int:
        return click.IntRange(option.min, option.max)
    if type_ == Path | None:
        return click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.BOOL if type_ is bool else click.STRING


# Gives a command the option of the format of its file.
file_format: Final = click.option(
    "--format",
    "file_format",
    type=click.Choice([*FORMATS]),
    help="Format of the file. Default: by its name. ndjson is another name of jsonl.",
)


def format_of(file: Path, name: str | None) -> Format:
    """Return the format of a file, by the option or by the name of the file.

    Raises:
        UsageError: it is unknown.

    """
    key = name or file.suffix.removeprefix(".").lower()
    if key not in FORMATS:
        raise UsageError(
            f"The format of {file} is unknown: name the file .csv or .jsonl, or give --format"
        )
    return FORMATS[key]
