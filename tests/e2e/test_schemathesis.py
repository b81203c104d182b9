"""Schemathesis checks the service against its OpenAPI document."""

import os
import subprocess
import sys
from pathlib import Path

from support.service import Service


def test_schemathesis_finds_no_violation_of_the_openapi_document(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"http://127.0.0.1:{service.port}/openapi.json"),
            *("--header", f"Authorization: Bearer {service.token()}"),
            *("--phases", "examples,coverage,fuzzing,stateful"),
            *("--checks", "all"),
            *("--max-examples", "300"),
            *("--seed", "1"),
            "--no-color",
        ]
        hooks = {
            "SCHEMATHESIS_HOOKS": "fresh_store",
            "PYTHONPATH": str(Path(__file__).parent),
            "PLANTS": service.database,
        }
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=os.environ | hooks,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "20 selected / 20 total" in done.stdout
    assert not any("failed" in line for line in service.log)
