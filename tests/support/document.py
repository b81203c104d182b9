"""The interface document, its operations, and Schemathesis, which checks the service against it."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from plantstore.api.static_files import read_document
from support.command import output_of
from support.service import Service
from support.world import PATCHED, VALID

DOCUMENT: dict[str, Any] = json.loads(read_document())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]

# A valid body of each media type.
BODIES = {
    "application/json": VALID,
    PATCHED["Content-Type"]: b"{}",
    "text/csv": b"id,name\n1,a\n",
    "application/x-ndjson": VALID,
}
CHANGES = b'{"id": 1, "before": null, "after": {"name": "a"}}'


class Operation(NamedTuple):
    """An operation of the document.

    Attributes:
        scope: that a token needs; None if any token will do, or none is needed. Of several,
            separated by spaces, one is enough.
        needs_token: whether it needs one.

    """

    method: str
    path: str
    content: dict[str, Any]
    scope: str | None
    needs_token: bool

    def request(self) -> dict[str, Any]:
        """Return the arguments of `World.ask` for a valid request without a token."""
        query = [
            f"{each['name']}={each['example']}"
            for each in self.parameters()
            if each["in"] == "query" and each.get("required")
        ]
        path = "?".join([self.path.replace("{id}", "1"), *query])
        request: dict[str, Any] = {"method": self.method, "path": path}
        for media_type, body in self.bodies():
            request |= {"content": body, "headers": {"Content-Type": media_type}}
        return request

    def bodies(self) -> list[tuple[str, bytes]]:
        """Return the media types of the body, with a valid body of each."""
        content = self.content.get("requestBody", {}).get("content", ())
        bodies = BODIES if self.path != "/changes" else {"application/x-ndjson": CHANGES}
        return [(media_type, bodies[media_type]) for media_type in content]

    def parameters(self) -> list[dict[str, Any]]:
        """Return the parameters in the path, the query and the headers."""
        shared = DOCUMENT["paths"][self.path].get("parameters", [])
        found = [*shared, *self.content.get("parameters", [])]
        known = DOCUMENT["components"]["parameters"]
        return [
            known[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in found
        ]


def _scope_in(description: str) -> str | None:
    found = re.search(r"Needs the scope (`[^.]*`)", description)
    return None if found is None else " ".join(re.findall(r"`(\S+)`", found[1]))


def _operations() -> list[Operation]:
    return [
        Operation(
            method.upper(),
            path,
            content,
            _scope_in(content["description"]),
            content.get("security") != [],
        )
        for path, item in DOCUMENT["paths"].items()
        for method, content in item.items()
        if method != "parameters"
    ]


OPERATIONS = _operations()
NAMES = [f"{operation.method} {operation.path}" for operation in OPERATIONS]
PATHS = list(DOCUMENT["paths"])


def response_fields() -> set[str]:
    """Return the names of all header fields that a response may have."""
    responses = [*DOCUMENT["components"]["responses"].values()]
    responses += [each for one in OPERATIONS for each in one.content["responses"].values()]
    return {name for each in responses for name in each.get("headers", ())}


def assert_conformance(folder: Path, examples: int) -> None:
    """Run Schemathesis with this many examples for each operation; it must find no violation."""
    with Service(folder) as service:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            *("--config-file", str(Path(__file__).with_name("schemathesis.toml"))),
            *("run", f"http://127.0.0.1:{service.port}/openapi.json"),
            *("--header", f"Authorization: Bearer {service.token()}"),
            *("--phases", "examples,coverage,fuzzing,stateful"),
            *("--checks", "all"),
            *("--max-examples", f"{examples}"),
            *("--seed", "1"),
            "--no-color",
        ]
        hooks = {
            "SCHEMATHESIS_HOOKS": "support.schemathesis_hooks",
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "PLANTS": service.database,
        }
        said = output_of(*command, cwd=folder, env=os.environ | hooks, timeout=900)

    tested = len(OPERATIONS) - 1  # it leaves out the one from which it reads the document
    assert f"{tested} selected / {tested} total" in said
    assert not service.has_logged("failed")
