"""The contents of the container files: Containerfile, Compose and Kubernetes."""

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
COMPOSE = ROOT / "deploy/compose.yaml"
KUBERNETES = ROOT / "deploy/kubernetes.yaml"


def service() -> dict[str, Any]:
    """Return the service `plantstore` of the Compose file."""
    found: dict[str, Any]
    found = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]["plantstore"]
    return found


def objects() -> dict[str, dict[str, Any]]:
    """Return the Kubernetes objects by their kind."""
    text = KUBERNETES.read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def pod() -> dict[str, Any]:
    found: dict[str, Any] = objects()["Deployment"]["spec"]["template"]["spec"]
    return found


def container() -> dict[str, Any]:
    found: dict[str, Any]
    [found] = pod()["containers"]
    return found


def migration() -> dict[str, Any]:
    """Return the init container, which migrates the schema."""
    found: dict[str, Any]
    [found] = pod()["initContainers"]
    return found


def variables(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in container["env"]}


def instructions(name: str) -> list[str]:
    """Return the arguments of each instruction of this name in the Containerfile, on one line."""
    text = CONTAINERFILE.read_text(encoding="utf-8").replace("\\\n", " ")
    return [" ".join(found.split()) for found in re.findall(rf"^{name} (.*)$", text, re.MULTILINE)]
