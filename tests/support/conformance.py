"""Schemathesis, which checks the service against its OpenAPI document."""

import os
import subprocess
import sys
from pathlib import Path

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
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | hooks,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "34 selected / 34 total" in done.stdout
    assert not any("failed" in line for line in service.log)
