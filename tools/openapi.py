"""Make the interface document from openapi.yaml, which has what is special to each operation.

Derived are: HEAD of each path with GET, OPTIONS of each path, the scope (from the table of
operations), and the failures that follow from the scope, the parameters and the body of an
operation.
"""

import re
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from plantstore.api.app import OPERATIONS
from plantstore.errors import ErrorCode
from plantstore.messages import Request
from plantstore.tokens import SCOPES

Node: TypeAlias = dict[str, Any]

_SOURCE: Final = Path(__file__).with_suffix(".yaml")

# Begins the list of the error numbers in a description. For people, docs/errors.md has the list.
NUMBERS: Final = " The numbers: "

# Any request can fail so.
COMMON: Final = {
    "400": "NotHTTP",
    "408": "RequestTimeout",
    "431": "HeadTooLarge",
    "500": "InternalServerError",
    "501": "NotImplemented",
    "503": "ServiceUnavailable",
}
WITH_TOKEN: Final = {"401": "Unauthorized", "429": "TooManyRequests"}
WITH_SCOPE: Final = {"403": "Forbidden"}
WITH_CONDITION: Final = {"412": "PreconditionFailed"}
WITH_BODY: Final = {"415": "UnsupportedMediaType"}
WITH_RECORD: Final = {"413": "ContentTooLarge"}
RECORDS: Final = {"application/json", "application/merge-patch+json"}


def make_document() -> Node:
    """Return the OpenAPI document."""
    document: Node = expand(yaml.safe_load(_SOURCE.read_text("utf-8")))
    components = document["components"]
    components["securitySchemes"]["token"]["description"] += f" Its scopes: {', '.join(SCOPES)}."
    numbers = ", ".join(f"{int(code)} {code.name.lower()}" for code in sorted(ErrorCode))
    components["schemas"]["Error"]["properties"]["error"]["description"] += f"{NUMBERS}{numbers}."
    for failure in components["responses"].values():
        if "example" in failure:
            body = {"schema": refer("Error", "schemas"), "example": failure.pop("example")}
            failure["content"] = {"application/json": body}
    for path, item in document["paths"].items():
        document["paths"][path] = complete_path(path, item, components)
    return document


def complete_path(path: str, item: Node, components: Node) -> Node:
    """Return a path with all its operations."""
    name, completed = item.pop("name"), {}
    for method, operation in item.items():
        completed[method] = complete_operation(operation, scope_of(method.upper(), path))
        if method == "get":
            completed["head"] = head(name, completed["get"], components)
    completed["options"] = options(name, path, can_patch="patch" in item)
    return completed


def scope_of(method: str, path: str) -> str | None:
    """Return the scope of an operation for a usual request; None if it needs no token."""
    [scope] = (each.scope for each in OPERATIONS if (each.method, each.path) == (method, path))
    return scope(Request(method, path)) if callable(scope) else scope


def complete_operation(operation: Node, scope: str | None) -> Node:
    """Return an operation with its tags, its security, and all its failures."""
    if scope is None:
        operation["security"] = []
    elif scope:
        several = " or ".join(f"`{each}`" for each in scope.split())
        operation["description"] += f" Needs the scope {several}."
    if scope == "plants:read":
        operation["description"] += " With `--public-read`, needs no token."
        operation["security"] = [{"token": []}, {}]
    named = [each["$ref"].rpartition("/")[2] for each in operation.get("parameters", ())]
    media_types = operation.get("requestBody", {}).get("content", {}).keys()
    failures: dict[str, str] = {}
    for statuses, can_be in (
        (COMMON, True),
        (WITH_TOKEN, scope is not None),
        (WITH_SCOPE, scope),
        (WITH_CONDITION, "IfMatch" in named),
        (WITH_BODY, media_types),
        (WITH_RECORD, RECORDS & media_types),
    ):
        failures |= statuses if can_be else {}
    responses = {status: refer(name, "responses") for status, name in failures.items()}
    responses |= operation.pop("responses")
    if "ChangeSet" in named:
        for status, response in responses.items():
            if status.startswith("2"):
                headers = response.get("headers", {})
                response["headers"] = headers | {"Change-Set": refer("ChangeSet", "headers")}
    return {"tags": ["additions"], **operation, "responses": dict(sorted(responses.items()))}


def head(name: str, get: Node, components: Node) -> Node:
    """Return HEAD for a path with GET."""
    responses = {}
    for status, response in get["responses"].items():
        _, _, component = response.get("$ref", "").rpartition("/")
        found = components["responses"][component] if component else response
        if component != "NotAcceptable":  # HEAD reads no plants, so it does not find such a plant
            responses[status] = {"description": found["description"]}
            if headers := found.get("headers"):
                # A field that the content determines may be left out (RFC 9110 §9.3.2).
                responses[status]["headers"] = {
                    field: {key: value for key, value in each.items() if key != "required"}
                    for field, each in headers.items()
                }
    scope = re.search(r" Needs the scope `\S+`\..*$", get["description"])
    return get | {
        "operationId": f"head{name}",
        "summary": "The same without a body",
        "description": "The same as GET, without the body." + (scope[0] if scope else ""),
        "responses": responses,
    }


def options(name: str, path: str, *, can_patch: bool) -> Node:
    """Return OPTIONS for a path."""
    operation: Node = {
        "operationId": f"get{name}Options",
        "summary": "The methods of this path",
        "description": "The `Allow` header has the methods. Needs no token.",
        "tags": ["service"],
        "responses": {"200": refer("PlantOptions" if can_patch else "Options", "responses")},
    }
    if "{" in path:
        operation["description"] += " The response is the same for every id, even an invalid one."
        operation["parameters"] = [refer("AnyId", "parameters")]
    return complete_operation(operation, None)


def expand(node: Any) -> Any:
    """Return a part of the source with references in place of names."""
    if isinstance(node, list):
        return [expand(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {str(key): expand_member(str(key), each) for key, each in node.items()}


def expand_member(key: str, value: Any) -> Any:
    """Return the value of a member with references in place of names."""
    if key in ("example", "value"):
        return value
    if key == "$ref":
        return refer(value, "schemas")["$ref"]
    if key in ("schema", "items"):
        return refer(value, "schemas")
    if key in ("headers", "responses"):
        return {str(name): refer(each, key) for name, each in value.items()}
    if key == "parameters" and isinstance(value, list):
        return [refer(each, key) for each in value]
    return expand(value)


def refer(node: Any, group: str) -> Node:
    """Return a reference to a component of a group, or the node itself if it is no name."""
    if isinstance(node, str):
        return {"$ref": f"#/components/{group}/{node}"}
    expanded: Node = expand(node)
    return expanded
