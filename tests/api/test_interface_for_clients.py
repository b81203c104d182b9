"""The requirements of readers and client generators on the interface document."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from plantstore.web import read_document
from support import pcre2

DOCUMENT: dict[str, Any] = json.loads(read_document())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


# Each entry of these members needs a description.
DESCRIBED = {
    *("headers", "links", "parameters", "properties", "responses"),
    *("schemas", "securitySchemes", "servers", "tags"),
}


def nodes(value: Any, path: str = "#") -> Iterator[tuple[str, Any]]:
    """Yield each object of the document, with its path."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    if isinstance(value, dict):
        yield path, value
    for key, member in members:
        if isinstance(member, dict | list) and key not in ("example", "value"):
            yield from nodes(member, f"{path}/{str(key).replace('/', '~1')}")


PATTERNS = sorted({node["pattern"] for _, node in nodes(SCHEMAS) if "pattern" in node})
TEXTS = {"": True, "a": True, "line\nbreak\n": True, "×": True, "a\0": False, "\0\n": False}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_the_same_texts_in_python_and_in_pcre2(pattern: str) -> None:
    found = {text: pcre2.matches(pattern, text) for text in TEXTS}

    assert found == TEXTS
    assert {text: re.search(pattern, text) is not None for text in TEXTS} == TEXTS


def test_no_operation_declares_a_parameter_twice() -> None:
    for path, item in DOCUMENT["paths"].items():
        for method in {"get", "head", "options", "post", "put", "patch", "delete"} & set(item):
            parameters = [*item.get("parameters", []), *item[method].get("parameters", [])]
            names = [
                DOCUMENT["components"]["parameters"][each["$ref"].rpartition("/")[2]]["name"]
                if "$ref" in each
                else each["name"]
                for each in parameters
            ]
            assert len(names) == len(set(names)), (path, method)
            assert set(re.findall("{(.*?)}", path)) <= set(names)


def test_the_schemas_allow_error_numbers_and_members_that_are_added_later() -> None:
    answers = {"Error", "Health", "Ids", "Plant", "StoredPlant", "Token"}
    schemas = [node for name in answers for _, node in nodes(SCHEMAS[name])]

    assert not any("enum" in schema for schema in schemas)
    assert not any(schema.get("additionalProperties") is False for schema in schemas)
    Draft202012Validator(SCHEMAS["Error"]).validate({"error": 1999, "message": "a", "detail": "b"})


def test_every_part_of_the_document_has_a_description() -> None:
    wanted: dict[str, set[str]] = {}
    for path, node in nodes(DOCUMENT):
        _, parent, name = f"//{path}".rsplit("/", 2)
        if parent in DESCRIBED or name == "requestBody":
            wanted[path] = {"description"}
        elif parent == "examples":
            wanted[path] = {"summary"}
        elif re.fullmatch("#/paths/[^/]+/[a-z]+", path):
            wanted[path] = {"summary", "description"}
        if "$ref" in node:
            wanted.pop(path, None)
    found = dict(nodes(DOCUMENT))

    assert len(wanted) > 100
    assert [path for path, keys in wanted.items() if not keys <= found[path].keys()] == []


def test_the_document_names_its_authors_without_an_address_and_a_relative_server() -> None:
    assert DOCUMENT["info"]["contact"] == {"name": "The Plant Store authors"}
    assert [server["url"] for server in DOCUMENT["servers"]] == ["/"]


def test_the_document_warns_users_of_javascript_about_large_ids() -> None:
    texts = [DOCUMENT["info"]["description"], SCHEMAS["Id"]["description"]]

    assert all("JavaScript" in text and "2^53" in text for text in texts)
