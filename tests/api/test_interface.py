"""The interface document, compared with the code, and what its readers and generators require."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from plantstore.api.app import OPERATIONS as TABLE
from plantstore.api.auth import TokenDescription
from plantstore.api.error_responses import STATUS
from plantstore.api.ids import IDS_MAX, HandedOut
from plantstore.api.paging import LIMIT_DEFAULT, LIMIT_MAX
from plantstore.api.parameters import INT32_MAX
from plantstore.change_sets import UndoCounts
from plantstore.commit.imports import LISTED_ERRORS_MAX, Conflict, RowCounts, RowError
from plantstore.errors import ErrorCode, RequestError
from plantstore.formats import FORMATS
from plantstore.messages import Request
from plantstore.plants import ID_MAX, ID_MIN, parse_new_plant, parse_patch, parse_plant
from support.attacks import WORST
from support.document import DOCUMENT, OPERATIONS, SCHEMAS

PARAMETERS = DOCUMENT["components"]["parameters"]
POST = DOCUMENT["paths"]["/plants"]["post"]


def nodes(value: Any, path: str = "#") -> Iterator[tuple[str, Any]]:
    """Yield each object of the document, with its path."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    if isinstance(value, dict):
        yield path, value
    for key, member in members:
        if isinstance(member, dict | list) and key not in ("example", "value"):
            yield from nodes(member, f"{path}/{str(key).replace('/', '~1')}")


def validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{schema}", **DOCUMENT})


def resolved(node: dict[str, Any]) -> dict[str, Any]:
    """Return what a node refers to, or else itself."""
    found = DOCUMENT if "$ref" in node else node
    for name in node.get("$ref", "").split("/")[1:]:
        found = found[name]
    return found


def test_each_parameter_has_its_most_expensive_values_in_the_table_of_attacks() -> None:
    """`make soak` measures what they cost."""
    without_enumeration = {
        each["name"]
        for operation in OPERATIONS
        for each in operation.parameters()
        if "enum" not in each["schema"]
    }

    assert WORST.keys() == without_enumeration


def test_the_document_declares_exactly_the_paths_and_methods_that_are_routed() -> None:
    """With their scopes, and the media type of their bodies. A patch may also be plain JSON."""
    # The page and the reference are for browsers.
    pages = {"/", "/docs", "/docs/"}
    table = [each for each in TABLE if each.path not in pages]
    routed: dict[tuple[str, str], Any] = {}
    for each in table:
        scope = each.scope(Request(each.method, each.path)) if callable(each.scope) else each.scope
        for method in ("GET", "HEAD") if each.method == "GET" else (each.method,):
            routed[method, each.path] = (scope is not None, scope or None, [*each.media_types[:1]])
        routed["OPTIONS", each.path] = (False, None, [])

    assert routed == {
        (each.method, each.path): (
            each.needs_token,
            each.scope,
            [body[0] for body in each.bodies()],
        )
        for each in OPERATIONS
    }
    assert len(table) == len({(each.method, each.path) for each in table})


def test_the_published_contract_is_unchanged() -> None:
    """Clients rely on POST /plants, NewPlant, Plant and Error: they must not change."""
    int64 = {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1}
    text = {"$ref": "#/components/schemas/Text"}
    record = {
        media_type: content["schema"]
        for media_type, content in POST["responses"]["200"]["content"].items()
    }
    new, plant, error = (SCHEMAS[name] for name in ("NewPlant", "Plant", "Error"))

    assert POST["requestBody"]["required"] is True
    assert [*POST["requestBody"]["content"]] == ["application/json"]
    body = POST["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/NewPlant"}
    assert record == {"application/json": {"$ref": "#/components/schemas/Plant"}}
    assert POST["parameters"] == [{"$ref": "#/components/parameters/ChangeSet"}]
    assert "required" not in PARAMETERS["ChangeSet"]
    assert (new["required"], plant["required"]) == (["id", "name"], ["name"])
    assert new["properties"]["id"].items() >= int64.items()
    assert new["properties"].keys() == {"id", "name", "tag"}
    assert plant["properties"].keys() == {"name", "tag"}
    for schema in (new, plant):
        assert schema["properties"]["name"].items() >= text.items()
        assert schema["properties"]["tag"].items() >= text.items()
    assert error["required"] == ["error", "message"]
    assert error["properties"]["error"]["format"] == "int32"


def test_every_error_number_is_in_the_description_of_a_response_with_its_status() -> None:
    named = {
        (int(status), int(number))
        for operation in OPERATIONS
        for status, response in operation.content["responses"].items()
        if int(status) >= 400
        for number in re.findall(r"\d{4}", resolved(response)["description"])
    }
    outside = {ErrorCode.NOT_FOUND, ErrorCode.METHOD_NOT_ALLOWED}  # no operation has them

    assert named == {(STATUS[code], code) for code in set(ErrorCode) - outside}


RECORDS: dict[str, tuple[Callable[[bytes], object], list[Any]]] = {
    "NewPlant": (
        parse_new_plant,
        [
            *({"id": 1, "name": "a", "tag": "b"}, {"id": ID_MIN, "name": ""}),
            *({"id": ID_MAX, "name": "×", "x": None}, {"id": ID_MAX + 1, "name": "a"}),
            *({"id": id_, "name": "a"} for id_ in (1.0, 1.5, True, "1")),
            *({"id": 1}, {"name": "a"}, {"id": 1, "name": None}),
            *({"id": 1, "name": "a", "tag": None}, {"id": 1, "name": "\0"}),
            *({"id": 1, "name": "line\nbreak", "tag": "b\0"}, [], None, 1),
        ],
    ),
    "PlantReplacement": (
        parse_plant,
        [
            *({"name": "a", "tag": "b"}, {"name": ""}, {"id": "x", "name": "a"}, {}, {"tag": "a"}),
            *({"name": 1}, {"name": "a", "tag": None}, {"name": "\0"}, {"name": "a", "tag": "\0"}),
            [],
        ],
    ),
    "PlantPatch": (
        parse_patch,
        [
            *({}, {"name": "a"}, {"id": "x", "tag": "b"}, {"name": "", "tag": None}),
            *({"name": None}, {"name": 1}, {"tag": ["a"]}, {"name": "\0"}, {"tag": "\0"}),
            *([], None, "a"),
        ],
    ),
}


@pytest.mark.parametrize(
    ("schema", "record"),
    [(schema, record) for schema, (_, records) in RECORDS.items() for record in records],
)
def test_the_schema_and_the_parser_of_a_plant_agree(schema: str, record: Any) -> None:
    parse, _ = RECORDS[schema]
    try:
        parse(json.dumps(record).encode())
        is_taken = True
    except RequestError:
        is_taken = False

    assert validator(schema).is_valid(record) is is_taken


def test_the_examples_are_valid_by_their_schemas() -> None:
    checked = 0
    for operation in OPERATIONS:
        responses = map(resolved, operation.content["responses"].values())
        parts = operation.content.get("requestBody", {}), *responses
        for content in (each for part in parts for each in part.get("content", {}).values()):
            examples = [one["value"] for one in content.get("examples", {}).values()]
            for example in examples + [content[name] for name in content if name == "example"]:
                Draft202012Validator({**content["schema"], **DOCUMENT}).validate(example)
                checked += 1

    assert checked


def test_limits_ids_and_media_types_are_those_of_the_document() -> None:
    count, limit = PARAMETERS["Count"]["schema"], PARAMETERS["Limit"]["schema"]
    [page] = DOCUMENT["paths"]["/plants"]["get"]["responses"]["200"]["content"].values()
    id_ = SCHEMAS["Id"]

    assert (count["minimum"], count["maximum"], count["default"]) == (1, IDS_MAX, 1)
    assert (limit["default"], limit["maximum"]) == (LIMIT_DEFAULT, INT32_MAX)
    assert page["schema"]["maxItems"] == LIMIT_MAX
    assert (id_["minimum"], id_["maximum"], id_["format"]) == (ID_MIN, ID_MAX, "int64")
    for suffix in ("csv", "ndjson"):
        file = DOCUMENT["paths"][f"/plants.{suffix}"]
        into = file["post"]["requestBody"]["content"]
        out = file["get"]["responses"]["200"]["content"]
        assert [*into] == [*out] == [FORMATS[suffix].media_type]


def test_the_members_of_responses_are_those_of_the_document() -> None:
    records: dict[str, Any] = {
        "Token": TokenDescription,
        "Ids": HandedOut,
        "UndoResult": UndoCounts,
    }
    [conflict] = (each for each in PARAMETERS.values() if each["name"] == "on-conflict")

    for name, record in records.items():
        assert SCHEMAS[name]["properties"].keys() == set(record.__struct_fields__)
    errors = {*SCHEMAS["RowError"]["properties"], *SCHEMAS["ChangeError"]["properties"]}
    assert errors == {*RowError.__struct_fields__}
    for name, never in (("ImportResult", "deleted"), ("ChangesResult", "skipped")):
        counted = {*RowCounts.__struct_fields__} - {never}
        assert {*SCHEMAS[name]["properties"]} == counted | {"dry_run", "errors", "warnings"}
    assert conflict["schema"]["enum"] == [each.value for each in Conflict]
    assert SCHEMAS["ImportResult"]["properties"]["errors"]["maxItems"] == LISTED_ERRORS_MAX


def test_each_pattern_is_the_one_that_python_ecma_262_and_pcre2_interpret_in_the_same_way() -> None:
    assert {node["pattern"] for _, node in nodes(SCHEMAS) if "pattern" in node} == {r"^[^\x00]*$"}


def test_the_schemas_allow_error_numbers_and_members_that_are_added_later() -> None:
    answers = {"Error", "Health", "Ids", "Plant", "StoredPlant", "Token"}
    schemas = [node for name in answers for _, node in nodes(SCHEMAS[name])]

    assert not any("enum" in schema for schema in schemas)
    assert not any(schema.get("additionalProperties") is False for schema in schemas)
    validator("Error").validate({"error": 1999, "message": "a", "detail": "b"})


def test_the_create_alone_is_the_contract_in_version_1_0_0_with_the_mit_licence() -> None:
    tagged = [(op.method, op.path) for op in OPERATIONS if "plants" in op.content["tags"]]
    info = DOCUMENT["info"]

    assert tagged == [("POST", "/plants")]
    assert (info["version"], info["license"]["identifier"]) == ("1.1.0", "MIT")
