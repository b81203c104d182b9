"""Write the files that are generated from the code: `python tools/documents.py`.

docs/cli.md has the `--help` of each command; docs/settings.md has the options of `serve`.
openapi.py makes web/openapi.json, and README.md has a table of its operations. tests/test_docs.py
compares the files with the code.
"""

import json
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any, TypeAlias

from click import Command, Context, Group

import openapi
from plantstore.cli import app

Node: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parent.parent
INTERFACE = openapi.make_document()

# Of the help of a command.
WIDTH = 90

NOTE = "<!-- Made by `python tools/documents.py`, and held to the code by a test. -->"

ABOUT_THE_COMMAND_LINE = """
`-h` or `--help` after any command describes it, as here. Options that are [settings](settings.md)
are left out: all of `serve`, and `--database` and `--standbys-min` of other commands.

To complete commands and options, add this to the start-up file of Bash:
`eval "$(_PLANTSTORE_COMPLETE=bash_source plantstore)"`. For Zsh, the value is `zsh_source`. For
fish, add `_PLANTSTORE_COMPLETE=fish_source plantstore | source`.

The exit status is 0 for success and 2 for wrong usage: an unknown option, or a setting that
cannot work. It is 1 for any other error, if `check` finds errors, and if `import` rejects a row.
An error is one line on stderr. `NO_COLOR=1` or `TERM=dumb` switches colors off.
"""

# The beginning and the end of the table in README.md.
TABLE_MARKS = ("<!-- operations -->\n", "<!-- end of operations -->\n")


def command_line() -> str:
    lines = ["# The command line", "", NOTE, ABOUT_THE_COMMAND_LINE]
    for name, command in commands("plantstore", app):
        context = Context(command, info_name=name, terminal_width=WIDTH, help_option_names=[])
        shown = copy(command)
        shown.params = [each for each in command.params if each.envvar is None]
        said = shown.get_help(context)
        lines += [f"## `{name}`", "", "```text", *said.splitlines(), "```", ""]
    return "\n".join(lines)


def commands(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    """Yield a command and the commands in it, with the words that call them."""
    yield name, command
    if isinstance(command, Group):
        for word, each in command.commands.items():
            yield from commands(f"{name} {word}", each)


def readme() -> str:
    """Return README.md with the table of all operations but POST /plants, which it describes."""
    page = (ROOT / "README.md").read_text("utf-8")
    begin, end = (page.index(mark) for mark in TABLE_MARKS)
    added = {name: each for name, each in operations().items() if "plants" not in each["tags"]}
    rows = [[f"`{name}`", each["summary"]] for name, each in added.items()]
    lines = "\n".join(table(["operation", "what it does"], rows))
    return f"{page[:begin]}{TABLE_MARKS[0]}{lines}{page[end:]}"


def document() -> str:
    return json.dumps(INTERFACE, ensure_ascii=False, indent=2) + "\n"


def operations() -> dict[str, Node]:
    """Return the operations but HEAD and OPTIONS, by their names."""
    return {
        f"{method.upper()} {path}": operation
        for path, item in INTERFACE["paths"].items()
        for method, operation in item.items()
        if method not in ("head", "options")
    }


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return [*lines, ""] if rows else []


PAGES = {
    ROOT / "docs/cli.md": command_line,
    ROOT / "README.md": readme,
    ROOT / "src/plantstore/web/openapi.json": document,
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        page.write_text(make(), encoding="utf-8")
