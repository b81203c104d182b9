"""Write the pages that are generated from the code: `python tools/documents.py`.

docs/cli.md has the `--help` of each command; docs/settings.md has the options of `serve`.
docs/api.md is the interface document as text. tests/test_docs.py compares both pages with the code.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from click import Command, Context, Group

from plantstore.cli import app

Node: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parent.parent
INTERFACE = json.loads((ROOT / "src/plantstore/web/openapi.json").read_text("utf-8"))

# Of the help of a command, and its options.
WIDTH = 90
HELP = ["-h", "--help"]

NOTE = "<!-- Made by `python tools/documents.py`, and held to the code by a test. -->"

ABOUT_THE_COMMAND_LINE = """
To complete commands and options in your shell, add this to its start-up file:
`eval "$(_PLANTSTORE_COMPLETE=bash_source plantstore)"`. For Zsh, the value is `zsh_source`. For
fish, add `_PLANTSTORE_COMPLETE=fish_source plantstore | source`.

The exit status is 0 for success and 2 for wrong usage: an unknown option, or a setting that
cannot work. It is 1 for any other error, if `check` finds errors, and if `import` rejects a row.
An error is one line on stderr. `NO_COLOR=1` or `TERM=dumb` switches colors off.
"""

ABOUT_SERVE = "Its options are the [settings](settings.md)."

ABOUT_THE_API = """
`GET /openapi.json` is the same interface for programs, as OpenAPI 3.1. Each path that has GET also
has HEAD, with the same status and no body. Each path has OPTIONS, which needs no token: its `Allow`
header has the methods of the path.

Generators make clients from it. The one for Go needs two options. It names the constructor of
`Plant` like the type `NewPlant`, so give `Plant` another name. And its client refuses members that
later versions may add, unless it is told not to. With openapi-generator: `-g go
--model-name-mappings Plant=PlantRecord --additional-properties
disallowAdditionalPropertiesIfNotPresent=false`.
"""


NEEDED = {True: "required", False: "optional"}

# A bound of a type, in words.
BOUNDS = {
    "format": "{format}",
    "minimum": "{minimum} to {maximum}",
    "maxItems": "{maxItems} at most",
    "maxLength": "{maxLength} characters at most",
    "default": "default {default}",
    "pattern": "like `{pattern}`",
}

ABOUT_FAILURES = (
    "The body of each is an [Error](#error). Its [number](errors.md) says more than the status."
)


def command_line() -> str:
    lines = ["# The command line", "", NOTE, ABOUT_THE_COMMAND_LINE]
    for name, command in commands("plantstore", app):
        context = Context(command, info_name=name, terminal_width=WIDTH, help_option_names=HELP)
        said = command.get_help(context)
        lines += [f"## `{name}`", ""]
        if name == "plantstore serve":
            said = said.partition("\n\nOptions:")[0]
            lines += [ABOUT_SERVE, ""]
        lines += ["```text", *said.splitlines(), "```", ""]
    return "\n".join(lines)


def commands(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    """Yield a command and the commands in it, with the words that call them."""
    yield name, command
    if isinstance(command, Group):
        for word, each in command.commands.items():
            yield from commands(f"{name} {word}", each)


def interface() -> str:
    lines = ["# The API", "", NOTE, ABOUT_THE_API, INTERFACE["info"]["description"], ""]
    operations = [
        (f"{method.upper()} {path}", operation, methods.get("parameters", []))
        for path, methods in INTERFACE["paths"].items()
        for method, operation in methods.items()
        if method not in ("parameters", "head", "options")
    ]
    rows = [[link(name), each["summary"], each["tags"][0]] for name, each, _ in operations]
    lines += table(["operation", "what it does", "tag"], rows)
    for operation in operations:
        lines += describe_operation(*operation)
    lines += ["## Failures", "", ABOUT_FAILURES, ""]
    for name, response in INTERFACE["components"]["responses"].items():
        if "content" in response:
            lines += [f"### {name}", "", response["description"], ""]
            lines += [line for field in fields_of(response) for line in (field, "")]
            lines += block(*examples_of(response))
    lines += ["## Schemas", ""]
    for name, schema in INTERFACE["components"]["schemas"].items():
        lines += [f"### {name}", "", schema.get("description", ""), ""]
        lines += members(schema) or [f"Type: {type_of(schema)}", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def describe_operation(name: str, operation: Node, parameters: list[Node]) -> Iterator[str]:
    no_token = "No token is needed." if operation.get("security") == [] else ""
    sentences = (f"{operation['summary']}.", operation.get("description", ""), no_token)
    yield from (f"## {name}", "", " ".join(filter(None, sentences)), "")
    rows = [
        [f"`{each['name']}`", each["in"], type_of(each["schema"]), each.get("description", "")]
        for each in map(resolve, [*parameters, *operation.get("parameters", [])])
    ]
    yield from table(["parameter", "in", "type", "what it is"], rows)
    if "requestBody" in operation:
        for media_type, body in operation["requestBody"]["content"].items():
            yield from (f"The body, `{media_type}`, is {type_of(body['schema'])}:", "")
            yield from members(resolve(body["schema"]))
            yield from block(*examples(body))
    responses = operation["responses"]
    rows = [
        [status, resolve(each)["description"], body_of(each)] for status, each in responses.items()
    ]
    yield from table(["status", "what it means", "body"], rows)
    # Responses of several statuses have the same field.
    fields = dict.fromkeys(field for each in responses.values() for field in fields_of(each))
    for line in fields:
        yield from (line, "")
    for response in responses.values():
        yield from block(*examples_of(response))


def body_of(response: Node) -> str:
    """Return the type of a body, or a link to the failure that it describes."""
    if "$ref" in response:
        return link_to(response)
    bodies = response.get("content", {}).items()
    return " or ".join(f"{type_of(body['schema'])}, `{media_type}`" for media_type, body in bodies)


def fields_of(response: Node) -> list[str]:
    """Return a line for each header field of a response."""
    fields = response.get("headers", {}).items()
    return [f"`{name}`: {resolve(each)['description']}" for name, each in fields]


def examples_of(response: Node) -> list[str]:
    """Return the examples of the bodies of a response."""
    bodies = response.get("content", {}).values()
    return [example for body in bodies for example in examples(body)]


def examples(body: Node) -> list[Any]:
    """Return the examples of a body."""
    named = [example["value"] for example in body.get("examples", {}).values()]
    return named + ([body["example"]] if "example" in body else [])


def members(schema: Node) -> list[str]:
    return table(["member", "type", "", "what it is"], list(rows_of_members(schema)))


def rows_of_members(schema: Node, prefix: str = "") -> Iterator[list[str]]:
    """Yield a row for each member, followed by the rows of its own members."""
    for name, each in schema.get("properties", {}).items():
        needed = NEEDED[name in schema.get("required", ())]
        yield [f"`{prefix}{name}`", type_of(each), needed, each.get("description", "")]
        yield from rows_of_members(each, f"{prefix}{name}.")


def type_of(schema: Node) -> str:
    """Return a type in words, with its bounds."""
    if "$ref" in schema:
        return link_to(schema)
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


def link_to(reference: Node) -> str:
    return link(reference["$ref"].rpartition("/")[2])


def link(heading: str) -> str:
    """Return a link to a heading of the page, with the anchor that GitHub generates."""
    return f"[{heading}](#{re.sub(r'[^a-z -]', '', heading.lower()).replace(' ', '-')})"


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


PAGES = {ROOT / "docs/cli.md": command_line, ROOT / "docs/api.md": interface}

if __name__ == "__main__":
    for page, make in PAGES.items():
        page.write_text(make(), encoding="utf-8")
