"""The interface document, compared with the code."""

import json
import re
from typing import Any

import pytest
from falcon.inspect import inspect_app
from jsonschema import Draft202012Validator

from plantstore.api.auth import TokenDescription
from plantstore.api.errors import STATUS, render_error
from plantstore.api.ids import IDS_MAX, HandedOut
from plantstore.api.parameters import INT32_MAX
from plantstore.api.plants import LIMIT_DEFAULT, LIMIT_MAX
from plantstore.commit.imports import LISTED_ERRORS_MAX, Conflict, ImportResult, RowError
from plantstore.errors import ErrorCode, InternalError, RequestError
from plantstore.formats import FORMATS
from plantstore.plants import ID_MAX, ID_MIN, parse_new_plant, parse_patch, parse_plant
from plantstore.tokens import SCOPES
from plantstore.web import read_document
from support.world import World

DOCUMENT: dict[str, Any] = json.loads(read_document())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
POST = DOCUMENT["paths"]["/plants"]["post"]
METHODS = {"get", "head", "options", "post", "put", "delete", "patch", "trace"}


def validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{schema}", **DOCUMENT})


def test_the_document_has_version_1_0_0_and_the_mit_license() -> None:
    assert DOCUMENT["info"]["version"] == "1.0.0"
    assert DOCUMENT["info"]["license"]["identifier"] == "MIT"


def test_the_document_declares_exactly_the_paths_and_methods_that_are_routed() -> None:
    app: Any = World().app
    routed = {
        (route.path, method.method)
        for route in inspect_app(app._app).routes  # noqa: SLF001
        for method in route.methods
        if "method_not_allowed" not in method.function_name
    }
    declared = {
        (path, method.upper())
        for path, item in DOCUMENT["paths"].items()
        for method in METHODS & set(item)
    }

    assert routed == declared


ANY = {400, 401, 403, 408, 429, 431, 500, 501, 503}
OPERATIONS = {
    ("/plants", "post"): {200, 413, 415} | ANY,
    ("/plants", "get"): {200} | ANY,
    ("/plants", "head"): {200} | ANY,
    ("/plants.csv", "post"): {200, 415} | ANY,
    ("/plants.csv", "get"): {200, 406} | ANY,
    ("/plants.csv", "head"): {200} | ANY,
    ("/plants.ndjson", "post"): {200, 415} | ANY,
    ("/plants.ndjson", "get"): {200} | ANY,
    ("/plants.ndjson", "head"): {200} | ANY,
    ("/plants/{id}", "get"): {200, 304, 404, 412} | ANY,
    ("/plants/{id}", "head"): {200, 304, 404, 412} | ANY,
    ("/plants/{id}", "put"): {200, 201, 404, 412, 413, 415} | ANY,
    ("/plants/{id}", "patch"): {200, 404, 412, 413, 415} | ANY,
    ("/plants/{id}", "delete"): {204, 404, 412} | ANY,
    ("/ids", "post"): {200, 409} | ANY,
}


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_an_operation_declares_every_status_that_it_can_have(path: str, method: str) -> None:
    operation = DOCUMENT["paths"][path][method]

    assert {int(status) for status in operation["responses"]} == OPERATIONS[path, method]


def test_the_published_contract_is_unchanged() -> None:
    """Clients rely on POST /plants, NewPlant, Plant and Error: they must not change."""
    refs = {
        status: response["$ref"].rsplit("/", 1)[1]
        for status, response in POST["responses"].items()
        if "$ref" in response
    }
    int64 = {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1}
    text = {"$ref": "#/components/schemas/Text"}

    assert POST["requestBody"]["required"] is True
    assert POST["requestBody"]["content"].keys() == {"application/json"}
    [body] = POST["requestBody"]["content"].values()
    assert body["schema"] == {"$ref": "#/components/schemas/NewPlant"}
    assert POST["responses"]["200"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/Plant"
    }
    assert refs == {
        "400": "BadRequest",
        "401": "Unauthorized",
        "403": "Forbidden",
        "408": "RequestTimeout",
        "413": "ContentTooLarge",
        "415": "UnsupportedMediaType",
        "429": "TooManyRequests",
        "431": "HeadTooLarge",
        "500": "InternalServerError",
        "501": "NotImplemented",
        "503": "ServiceUnavailable",
    }
    new, plant, error = (SCHEMAS[name] for name in ("NewPlant", "Plant", "Error"))
    assert new["required"] == ["id", "name"]
    assert new["properties"]["id"].items() >= int64.items()
    assert (plant["required"], plant["properties"].keys()) == (["name"], {"name", "tag"})
    assert new["properties"].keys() == {"id", "name", "tag"}
    assert all(schema["properties"]["name"].items() >= text.items() for schema in (new, plant))
    assert all(schema["properties"]["tag"].items() >= text.items() for schema in (new, plant))
    assert (error["required"], error["properties"]["error"]["format"]) == (
        ["error", "message"],
        "int32",
    )
    assert "parameters" not in POST


def test_operations_outside_the_contract_are_tagged_as_additions() -> None:
    tags = {
        (path, method): operation["tags"]
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }

    assert [key for key, value in tags.items() if value == ["plants"]] == [("/plants", "post")]
    assert {key for key, value in tags.items() if value == ["additions"]} == {
        *OPERATIONS.keys() - {("/plants", "post")}
    }


def test_every_error_number_has_a_status_and_is_described_in_the_document() -> None:
    described = SCHEMAS["Error"]["properties"]["error"]["description"]
    listed = re.findall(r"(\d{4}) (\w+)", described)

    assert set(STATUS) == set(ErrorCode)
    assert listed == [(str(int(code)), code.name.lower()) for code in sorted(ErrorCode)]
    assert all(0 < code < 2**31 for code in ErrorCode)


def test_every_error_number_is_in_the_description_of_a_response_with_its_status() -> None:
    named: dict[int, set[int]] = {}
    for path, method in OPERATIONS:
        for status, response in DOCUMENT["paths"][path][method]["responses"].items():
            if "$ref" in response:
                name = response["$ref"].rsplit("/", 1)[1]
                description = DOCUMENT["components"]["responses"][name]["description"]
                named.setdefault(int(status), set()).update(
                    map(int, re.findall(r"\d{4}", description))
                )
    expected: dict[int, set[int]] = {}
    for code, status in STATUS.items():
        if code not in (ErrorCode.NOT_FOUND, ErrorCode.METHOD_NOT_ALLOWED):  # no operation has them
            expected.setdefault(status, set()).add(code)

    assert named == expected


def test_every_failure_response_has_the_schema_error() -> None:
    for name, response in DOCUMENT["components"]["responses"].items():
        if "Options" in name:
            continue
        content = response["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/Error"}
        validator("Error").validate(content["example"])
    validator("Error").validate(json.loads(render_error(InternalError(), ()).body))


def test_ids_are_int64_and_every_scope_of_a_token_is_described() -> None:
    id_ = SCHEMAS["Id"]

    assert (id_["minimum"], id_["maximum"], id_["format"]) == (ID_MIN, ID_MAX, "int64")
    described = DOCUMENT["components"]["securitySchemes"]["token"]["description"]
    assert all(scope in described for scope in SCOPES)


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "name": "a", "tag": "b"},
        {"id": ID_MIN, "name": ""},
        {"id": ID_MAX, "name": "×", "x": None},
        {"id": ID_MAX + 1, "name": "a"},
        {"id": 1.0, "name": "a"},
        {"id": 1.5, "name": "a"},
        {"id": True, "name": "a"},
        {"id": "1", "name": "a"},
        {"id": 1},
        {"name": "a"},
        {"id": 1, "name": None},
        {"id": 1, "name": "a", "tag": None},
        {"id": 1, "name": "\0"},
        {"id": 1, "name": "line\nbreak", "tag": "b\0"},
        [],
        None,
        1,
    ],
)
def test_the_schema_and_the_parser_of_a_new_plant_agree(record: Any) -> None:
    try:
        parse_new_plant(json.dumps(record).encode())
        is_taken = True
    except RequestError:
        is_taken = False

    assert validator("NewPlant").is_valid(record) is is_taken


@pytest.mark.parametrize(
    "record",
    [
        {"name": "a", "tag": "b"},
        {"name": ""},
        {"id": "x", "name": "a"},
        {},
        {"tag": "a"},
        {"name": 1},
        {"name": "a", "tag": None},
        {"name": "\0"},
        {"name": "a", "tag": "\0"},
        [],
    ],
)
def test_the_schema_and_the_parser_of_a_replacement_agree(record: Any) -> None:
    try:
        parse_plant(json.dumps(record).encode())
        is_taken = True
    except RequestError:
        is_taken = False

    assert validator("PlantReplacement").is_valid(record) is is_taken


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"name": "a"},
        {"id": "x", "tag": "b"},
        {"name": "", "tag": None},
        {"name": None},
        {"name": 1},
        {"tag": ["a"]},
        {"name": "\0"},
        {"tag": "\0"},
        [],
        None,
        "a",
    ],
)
def test_the_schema_and_the_parser_of_a_patch_agree(record: Any) -> None:
    try:
        parse_patch(json.dumps(record).encode())
        is_taken = True
    except RequestError:
        is_taken = False

    assert validator("PlantPatch").is_valid(record) is is_taken


def test_the_examples_are_valid_by_their_schemas() -> None:
    checked = 0
    described = [
        item[method] for item in DOCUMENT["paths"].values() for method in METHODS & set(item)
    ]
    for operation in described:
        for part in (operation.get("requestBody", {}), *operation["responses"].values()):
            for content in part.get("content", {}).values():
                schema = {**content["schema"], **DOCUMENT}
                examples = [one["value"] for one in content.get("examples", {}).values()]
                examples += [content["example"]] if "example" in content else []
                for example in examples:
                    Draft202012Validator(schema).validate(example)
                    checked += 1

    assert checked == 22


def test_the_members_of_a_described_token_are_those_of_the_document() -> None:
    assert tuple(SCHEMAS["Token"]["properties"]) == TokenDescription.__struct_fields__


def test_the_count_of_ids_and_the_members_of_its_response_are_those_of_the_document() -> None:
    count = DOCUMENT["components"]["parameters"]["Count"]["schema"]

    assert (count["minimum"], count["maximum"], count["default"]) == (1, IDS_MAX, 1)
    assert tuple(SCHEMAS["Ids"]["properties"]) == HandedOut.__struct_fields__


def test_the_limits_of_a_listing_are_those_of_the_document() -> None:
    limit = DOCUMENT["components"]["parameters"]["Limit"]["schema"]
    content = DOCUMENT["paths"]["/plants"]["get"]["responses"]["200"]["content"]

    assert (limit["default"], limit["maximum"]) == (LIMIT_DEFAULT, INT32_MAX)
    assert content["application/json"]["schema"]["maxItems"] == LIMIT_MAX


@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_the_media_type_of_a_file_is_that_of_the_document(suffix: str) -> None:
    file = DOCUMENT["paths"][f"/plants.{suffix}"]
    into = file["post"]["requestBody"]["content"]
    out = file["get"]["responses"]["200"]["content"]

    assert [*into] == [*out] == [FORMATS[suffix].media_type]


def test_the_parameter_and_the_result_of_an_import_are_those_of_the_document() -> None:
    [conflict] = [
        each
        for each in DOCUMENT["components"]["parameters"].values()
        if each["name"] == "on-conflict"
    ]

    assert conflict["schema"]["enum"] == [each.value for each in Conflict]
    assert SCHEMAS["ImportResult"]["properties"]["errors"]["maxItems"] == LISTED_ERRORS_MAX
    assert SCHEMAS["ImportResult"]["properties"].keys() == set(ImportResult.__struct_fields__)
    assert SCHEMAS["RowError"]["properties"].keys() == set(RowError.__struct_fields__)
