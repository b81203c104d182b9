"""The interface document, held against the code."""

import json
import re
from http import HTTPStatus
from typing import Any

import pytest
from falcon.inspect import inspect_app
from jsonschema import Draft202012Validator

from plantstore.api.app import create_app
from plantstore.api.auth import Gate
from plantstore.api.errors import STATUS, render_error
from plantstore.api.openapi import read_document
from plantstore.errors import ErrorCode, RequestError
from plantstore.plants import ID_MAX, ID_MIN, parse_new_plant
from plantstore.storage.memory import MemoryStore
from plantstore.tokens import SCOPES
from plantstore.writer import GroupCommit

DOCUMENT: dict[str, Any] = json.loads(read_document())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
POST = DOCUMENT["paths"]["/plants"]["post"]


def validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": f"#/components/schemas/{schema}", **DOCUMENT})


def test_it_is_version_1_0_0_under_the_mit_license() -> None:
    assert DOCUMENT["info"]["version"] == "1.0.0"
    assert DOCUMENT["info"]["license"]["identifier"] == "MIT"


def test_it_declares_every_path_and_method_that_is_routed_and_no_other() -> None:
    def ignore(_event: object) -> None:
        pass

    store = MemoryStore()
    writer = GroupCommit(
        store, queue_plants_max=1, queue_characters_max=1, batch_plants_max=1, observe=ignore
    )
    app: Any = create_app(
        store=store,
        writer=writer,
        gate=Gate(store, clock=float, monotonic=float),
        body_bytes_max=1,
        observe=ignore,
    )
    routed = {
        (route.path, method.method)
        for route in inspect_app(app._app).routes  # noqa: SLF001
        for method in route.methods
        if "method_not_allowed" not in method.function_name
    }
    methods = {"get", "head", "options", "post", "put", "delete", "patch", "trace"}
    declared = {
        (path, method.upper())
        for path, item in DOCUMENT["paths"].items()
        for method in methods & set(item)
    }

    assert routed == declared


def test_it_declares_every_status_that_an_error_can_have() -> None:
    declared = {int(status) for status in POST["responses"]}
    framework = {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}

    assert declared == {200, *STATUS.values()} - framework


def test_every_error_number_has_a_status_and_stands_in_the_document() -> None:
    assert set(STATUS) == set(ErrorCode)
    assert SCHEMAS["Error"]["properties"]["error"]["enum"] == sorted(ErrorCode)
    assert all(0 < code < 2**31 for code in ErrorCode)


def test_each_answer_names_the_error_numbers_that_it_carries() -> None:
    for code, status in STATUS.items():
        if str(int(status)) not in POST["responses"]:
            continue
        name = POST["responses"][str(int(status))]["$ref"].rsplit("/", 1)[1]
        description = DOCUMENT["components"]["responses"][name]["description"]
        assert str(int(code)) in re.findall(r"\d{4}", description), code.name


def test_every_failure_is_an_error_record() -> None:
    for name, response in DOCUMENT["components"]["responses"].items():
        if name == "Options":
            continue
        content = response["content"]["application/json"]
        assert content["schema"] == {"$ref": "#/components/schemas/Error"}
        validator("Error").validate(content["example"])
    validator("Error").validate(json.loads(render_error(ErrorCode.INTERNAL, "x")))


def test_ids_are_int64_and_scopes_are_those_of_the_tokens() -> None:
    id_ = SCHEMAS["NewPlant"]["properties"]["id"]

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
def test_the_schema_and_the_parser_agree(record: Any) -> None:
    try:
        parse_new_plant(json.dumps(record).encode())
        is_taken = True
    except RequestError:
        is_taken = False

    assert validator("NewPlant").is_valid(record) is is_taken


def test_the_examples_are_valid() -> None:
    content = POST["requestBody"]["content"]["application/json"]
    for example in content["examples"].values():
        validator("NewPlant").validate(example["value"])
    validator("Plant").validate(POST["responses"]["200"]["content"]["application/json"]["example"])
