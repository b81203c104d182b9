"""Schemathesis, which checks the service against its OpenAPI document."""

import os
import sys
from pathlib import Path

from support.command import output_of
from support.document import OPERATIONS
from support.service import Service


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
