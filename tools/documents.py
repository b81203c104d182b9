"""Write the files that are generated from the code: `python tools/documents.py`.

docs/cli.md has the `--help` of each command; docs/settings.md has the options of `serve`.
openapi.py makes web/openapi.json; docs/api.md is this document as text, and README.md has a table
of its operations. tests/test_docs.py compares the files with the code.
"""

import json
import re
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
RESPONSES = INTERFACE["components"]["responses"]

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

ABOUT_THE_API = """
`GET /openapi.json` is the same interface for programs, as OpenAPI 3.1. Each path that has GET also
has HEAD, with the same status and fields, as far as the content does not determine them, and no
body. Each path has OPTIONS, which needs no token: its `Allow` header has the methods of the path.

[README](../README.md#the-interface) lists the operations.

Generators make clients from it. For Go, `Plant` needs another name, because its constructor would
be named like the type `NewPlant`, and the client must accept members that later versions may add.
With openapi-generator: `-g go --model-name-mappings Plant=PlantRecord --additional-properties
disallowAdditionalPropertiesIfNotPresent=false`.
"""


# A bound of a type, in words.
BOUNDS = {
    "format": "{format}",
    "minimum": "{minimum} to {maximum}",
    "maxItems": "{maxItems} at most",
    "maxLength": "{maxLength} characters at most",
    "default": "default {default}",
    "pattern": "like `{pattern}`",
}

ABOUT_EVERY_OPERATION = """
These failures follow from what an operation needs. An operation names only its other ones.
"""

# Which operations have the failures of a group.
GROUPS = {
    "every operation": openapi.COMMON,
    "one that needs a token": openapi.WITH_TOKEN,
    "one that needs a scope": openapi.WITH_SCOPE,
    "one with `If-Match`": openapi.WITH_CONDITION,
    "one with a body": openapi.WITH_BODY,
    "one whose body is a record": openapi.WITH_RECORD,
}
FOLLOWING = {name for group in GROUPS.values() for name in group.values()}

ABOUT_FAILURES = """
The body of each is an [Error](#error). Its [number](errors.md) says more than the status.
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


def interface() -> str:
    lines = ["# The API", "", NOTE, ABOUT_THE_API, INTERFACE["info"]["description"], ""]
    lines += ["## Every operation", ABOUT_EVERY_OPERATION]
    lines += table(
        ["operation", "failures"], [[who, failures(group)] for who, group in GROUPS.items()]
    )
    shown: dict[str, str] = {}
    for name, operation in operations().items():
        lines += describe_operation(name, operation, shown)
    lines += ["## Failures", ABOUT_FAILURES]
    lines += describe_failures()
    lines += ["## Schemas", ""]
    for name, schema in INTERFACE["components"]["schemas"].items():
        lines += [f"### {name}", "", schema.get("description", ""), ""]
        lines += [*members(schema)] or [f"Type: {type_of(schema)}"]
        lines += [""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def readme() -> str:
    """Return README.md with the table of all operations but POST /plants, which it describes."""
    page = (ROOT / "README.md").read_text("utf-8")
    begin, end = (page.index(mark) for mark in TABLE_MARKS)
    added = {name: each for name, each in operations().items() if "plants" not in each["tags"]}
    rows = [[link(name, "docs/api.md"), each["summary"]] for name, each in added.items()]
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


def describe_operation(name: str, operation: Node, shown: dict[str, str]) -> Iterator[str]:
    """Yield the lines of an operation.

    Args:
        name: its method and path.
        operation: is described.
        shown: which operation has described a parameter or a field first, by its description.

    """
    no_token = "No token is needed." if operation.get("security") == [] else ""
    yield from (
        f"## {name}",
        "",
        f"{operation['summary']}.",
        operation["description"],
        no_token,
        "",
    )
    parameters = map(resolve, operation.get("parameters", []))
    described = {
        each["description"]: (each["name"], f" ({each['in']}; {type_of(each['schema'])})")
        for each in parameters
    }
    yield from (*describe(described, name, shown), "")
    if "requestBody" in operation:
        for media_type, body in operation["requestBody"]["content"].items():
            yield from (f"The body is {type_of(body['schema'])}, `{media_type}`:", "")
            yield from block(*examples(body))
    made: list[Any] = []
    own = {}
    for status, response in operation["responses"].items():
        if status >= "4":
            if (failure := component_of(response)) not in FOLLOWING:
                own[status] = failure
            continue
        yield f"- {' '.join([f'**{status}**', *bodies_of(response)])}: {response['description']}"
        made += [each for each in examples_of(response) if each not in made]
        fields = {
            resolve(each)["description"]: (field, "")
            for field, each in response.get("headers", {}).items()
        }
        yield from (f"  {line}" for line in describe(fields, name, shown))
    yield ""
    yield from block(*made)
    if own:
        yield from (f"Also {failures(own)}.", "")


def describe(
    described: dict[str, tuple[str, str]], operation: str, shown: dict[str, str]
) -> Iterator[str]:
    """Yield a line for each parameter or field, and one for those that are described before.

    Args:
        described: their names and types, by their descriptions.
        operation: to which they belong.
        shown: as for `describe_operation`.

    """
    others: dict[str, list[str]] = {}
    for text, (name, type_) in described.items():
        first = shown.setdefault(text, operation)
        if first == operation:
            yield f"- `{name}`{type_}: {text}"
        else:
            others.setdefault(first, []).append(f"`{name}`")
    for first, names in others.items():
        yield f"- {', '.join(names)}: see {link(first)}."


def failures(components: dict[str, str]) -> str:
    """Return a text that names failures, given by their statuses."""
    return ", ".join(f"{status} [{name}](#failures)" for status, name in components.items())


def describe_failures() -> Iterator[str]:
    found = sorted(
        {
            (status, component_of(each))
            for operation in operations().values()
            for status, each in operation["responses"].items()
            if status >= "4"
        }
    )
    fields: dict[str, None] = {}
    for status, name in found:
        failure = RESPONSES[name]
        names = failure.get("headers", {})
        has = f" Fields: {', '.join(f'`{each}`' for each in names)}." if names else ""
        yield f"- {status} **{name}**: {failure['description']}{has}"
        fields |= {
            f"- `{name}`: {resolve(each)['description']}": None for name, each in names.items()
        }
    yield from ("", *fields, "")
    # One example is enough, and those with other members.
    shown = [example for _, name in found for example in examples_of(RESPONSES[name])]
    yield from block(*(each for each in shown if each is shown[0] or len(each) > len(shown[0])))


def component_of(reference: Node) -> str:
    name: str = reference["$ref"].rpartition("/")[2]
    return name


def bodies_of(response: Node) -> list[str]:
    """Return the type of each body of a response."""
    bodies = response.get("content", {}).items()
    return [f"({type_of(body['schema'])}, `{media_type}`)" for media_type, body in bodies]


def examples_of(response: Node) -> list[str]:
    """Return the examples of the bodies of a response."""
    bodies = response.get("content", {}).values()
    return [example for body in bodies for example in examples(body)]


def examples(body: Node) -> list[Any]:
    """Return the examples of a body."""
    named = [example["value"] for example in body.get("examples", {}).values()]
    return named + ([body["example"]] if "example" in body else [])


def members(schema: Node, prefix: str = "") -> Iterator[str]:
    """Yield a line for each member, followed by the lines of its own members."""
    for name, each in schema.get("properties", {}).items():
        needed = "" if name in schema.get("required", ()) else ", optional"
        text, _, _ = each.get("description", "").partition(openapi.NUMBERS)
        yield f"- `{prefix}{name}` ({type_of(each)}{needed}): {text}"
        yield from members(each, f"{prefix}{name}.")


def type_of(schema: Node) -> str:
    """Return a type in words, with its bounds."""
    if "$ref" in schema:
        return link(component_of(schema))
    if "anyOf" in schema:
        return " or ".join(map(type_of, schema["anyOf"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    of = f" of {type_of(schema['items'])}" if "items" in schema else ""
    bounded = {"maximum": "…", **schema}
    bounds = [text.format(**bounded) for key, text in BOUNDS.items() if key in schema]
    types = schema["type"]
    name = " or ".join(types) if isinstance(types, list) else types
    return ", ".join([f"{name}{of}", *bounds])


def resolve(node: Node) -> Node:
    """Return the target of a reference, or a node that is no reference unchanged."""
    found = INTERFACE if "$ref" in node else node
    for key in node.get("$ref", "").split("/")[1:]:
        found = found[key]
    return found


def link(heading: str, page: str = "") -> str:
    """Return a link to a heading of docs/api.md, with the anchor that GitHub generates."""
    return f"[{heading}]({page}#{re.sub(r'[^a-z -]', '', heading.lower()).replace(' ', '-')})"


def block(*values: Any) -> list[str]:
    """Show examples: JSON in one block, and each text in one of its own."""
    objects = [json.dumps(value, ensure_ascii=False) for value in values if not is_text(value)]
    lines = ["```json", *objects, "```", ""] if objects else []
    for text in filter(is_text, values):
        lines += ["```text", *text.splitlines(), "```", ""]
    return lines


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return [*lines, ""] if rows else []


PAGES = {
    ROOT / "docs/cli.md": command_line,
    ROOT / "docs/api.md": interface,
    ROOT / "README.md": readme,
    ROOT / "src/plantstore/web/openapi.json": document,
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        page.write_text(make(), encoding="utf-8")
