"""`plantstore import --url` and `plantstore export --url`, against a running service."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plantstore.cli.remote import RemoteService
from plantstore.plants import NewPlant
from support.certificates import make_pair
from support.command import run
from support.first_answer import FirstAnswer
from support.service import PLANTSTORE, Service, stored_plants

pytestmark = pytest.mark.engines("sqlite")

ROWS = 'id,name,tag\n1,Abies alba,Abies\n2,Rosa × damascena,\n3,"Two\nlines, ""quoted""",🌱\n'
PLANTS = {
    1: NewPlant(1, "Abies alba", "Abies"),
    2: NewPlant(2, "Rosa × damascena"),
    3: NewPlant(3, 'Two\nlines, "quoted"', "🌱"),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the folder of a user who has a file of plants, apart from that of the service."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "plants.csv").write_text(ROWS, encoding="utf-8")
    return folder


@pytest.fixture
def options(service: Service, home: Path) -> list[str]:
    """Return the options that name the service and a token."""
    return with_token(service, home)


def with_token(service: Service, home: Path, *scopes: str, scheme: str = "http") -> list[str]:
    name = "-".join(["token", *scopes]).replace(":", "-")
    (home / name).write_text(service.token(*scopes, name=name) + "\n", encoding="ascii")
    return ["--url", f"{scheme}://127.0.0.1:{service.port}", "--token-file", name]


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def begin(home: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Begin commands that end with the test."""
    begun = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [*PLANTSTORE, *arguments]
        begun.append(subprocess.Popen(command, cwd=home, stdout=pipe, stderr=pipe, text=True))
        return begun[-1]

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def test_a_file_is_imported_into_a_service_and_importing_it_again_changes_nothing(
    service: Service, home: Path, options: list[str]
) -> None:
    first, again = (run(home, "import", "plants.csv", *options) for _ in range(2))

    assert (first.stdout, first.stderr) == ("3 stored, 0 already there, 0 rejected\n", "")
    assert (again.stdout, again.stderr) == ("0 stored, 3 already there, 0 rejected\n", "")
    assert stored_plants(service.database) == PLANTS
    assert sorted(home.iterdir()) == [home / "plants.csv", home / "token"]


def test_rows_that_the_service_refuses_are_rejected_with_their_lines(
    service: Service, home: Path, options: list[str]
) -> None:
    service.change(NewPlant(2500, "other"))
    rows = [f"{id_},a\n" for id_ in range(1, 3001)]
    rows[1999] = "not a number,a\n"
    (home / "plants.csv").write_text("id,name\n" + "".join(rows), encoding="utf-8")

    done = run(home, "import", "plants.csv", "--rejects", "rejects.jsonl", *options)

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "2,998 stored, 0 already there, 2 rejected\n"
    assert [
        (each["line"], each["error"], each["row"]) for each in records(home / "rejects.jsonl")
    ] == [
        (2001, 1002, "not a number,a\n"),
        (2501, 1004, "2500,a\n"),
    ]


def test_conflicts_are_skipped_or_replaced_and_replacing_needs_its_scope(
    service: Service, home: Path, options: list[str]
) -> None:
    service.change(NewPlant(1, "other"), NewPlant(2, "Rosa × damascena"))
    creating = with_token(service, home, "plants:create")

    skipped = run(home, "import", "plants.csv", "--on-conflict", "skip", *creating)
    refused = run(home, "import", "plants.csv", "--on-conflict", "replace", *creating)
    replaced = run(home, "import", "plants.csv", "--on-conflict", "replace", *options)

    assert skipped.stdout == "1 stored, 1 already there, 1 skipped, 0 rejected\n"
    assert (refused.returncode, refused.stdout.split()[0]) == (1, "0")
    assert refused.stderr.endswith("answered 403: The token lacks the scope plants:update\n")
    assert replaced.stdout == "0 stored, 2 already there, 1 replaced, 0 rejected\n"
    assert stored_plants(service.database) == PLANTS


@pytest.mark.parametrize("name", ["all.csv", "all.jsonl"])
def test_an_export_of_a_service_has_the_same_bytes_as_that_of_its_database(
    service: Service, home: Path, options: list[str], name: str
) -> None:
    plants = (NewPlant(id_, f"Rosa × {id_}", "t" if id_ % 2 else None) for id_ in range(10, 2510))
    service.change(*plants, *PLANTS.values())

    done = run(home, "export", name, *options)
    to_stdout = run(home, "export", "--format", name.partition(".")[2], *options)
    local = run(service.folder, "export", name)

    assert done.stderr == to_stdout.stderr == local.stderr == "Exported 2,503 plants\n"
    expected = (service.folder / name).read_bytes()
    assert (home / name).read_bytes() == expected
    assert to_stdout.stdout == expected.decode().replace("\r\n", "\n")


def test_an_import_continues_when_the_service_is_back(
    tmp_path: Path, home: Path, begin: Callable[..., subprocess.Popen[str]]
) -> None:
    with Service(tmp_path) as service:
        options = with_token(service, home)
    busy = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nConnection: close\r\n\r\n"
    first = FirstAnswer([busy])
    options[1] = f"http://127.0.0.1:{first.port}"

    importing = begin("import", "plants.csv", *options)
    first.thread.join(60)
    with Service(tmp_path, "--port", str(first.port)) as service:
        said, _ = importing.communicate(timeout=60)

    assert (importing.returncode, said) == (0, "3 stored, 0 already there, 0 rejected\n")
    assert stored_plants(service.database) == PLANTS


@pytest.mark.parametrize("cut", [b"", b'{"id":9,"name":"x"}\n', b'{"id":1,"name":"Abies al'])
def test_an_interrupted_export_is_repeated_and_has_each_plant_once(
    tmp_path: Path, home: Path, begin: Callable[..., subprocess.Popen[str]], cut: bytes
) -> None:
    with Service(tmp_path) as service:
        options = with_token(service, home)
        service.change(*PLANTS.values())
    chunk = b"%x\r\n%b\r\n" % (len(cut), cut) if cut else b""
    first = FirstAnswer([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk])
    options[1] = f"http://127.0.0.1:{first.port}"

    exporting = begin("export", "plants.jsonl", *options)
    first.thread.join(60)
    with Service(tmp_path, "--port", str(first.port)):
        _, said = exporting.communicate(timeout=60)

    assert said.splitlines()[-1] == "Exported 3 plants"
    assert [record["id"] for record in records(home / "plants.jsonl")] == [1, 2, 3]


def test_an_interrupted_export_to_stdout_is_an_error(
    service: Service, options: list[str], begin: Callable[..., subprocess.Popen[str]]
) -> None:
    chunk = b'14\r\n{"id":9,"name":"xy"}\n\r\n'
    first = FirstAnswer([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunk])
    options[1] = f"http://127.0.0.1:{first.port}"

    exporting = begin("export", *options)
    first.thread.join(60)
    with Service(service.folder, "--port", str(first.port)):
        _, said = exporting.communicate(timeout=60)

    assert exporting.returncode == 1
    assert said.endswith("The export was interrupted; name a file to have it repeated\n")


def test_a_truncated_response_is_not_taken_for_a_complete_one(
    tmp_path: Path, home: Path, begin: Callable[..., subprocess.Popen[str]]
) -> None:
    with Service(tmp_path) as service:
        options = with_token(service, home)
    first = FirstAnswer([b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"stored":3}'])
    options[1] = f"http://127.0.0.1:{first.port}"

    importing = begin("import", "plants.csv", *options)
    first.thread.join(60)
    with Service(tmp_path, "--port", str(first.port)) as service:
        said, _ = importing.communicate(timeout=60)

    assert said == "3 stored, 0 already there, 0 rejected\n"
    assert stored_plants(service.database) == PLANTS


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("https://a.example", "a.example", 443),
        ("http://127.0.0.1:81/p", "127.0.0.1", 81),
        ("http://[::1]", "::1", 80),
        ("https://[fe80::1:2]", "fe80::1:2", 443),
        ("https://[2001:db8::abcd]:8443", "2001:db8::abcd", 8443),
    ],
)
def test_a_url_names_a_host_and_a_port(home: Path, url: str, host: str, port: int) -> None:
    (home / "token").write_text("t", encoding="ascii")

    service = RemoteService(url, home / "token", None)

    assert (service.host, service.port) == (host, port)


def test_requests_are_as_small_as_the_rate_of_the_token_demands(
    tmp_path: Path, home: Path, begin: Callable[..., subprocess.Popen[str]]
) -> None:
    with Service(tmp_path) as service:
        options = with_token(service, home)
    body = b'{"error":2004,"message":"Too often","lines_stored_through":1}'
    head = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: %d\r\n\r\n" % len(body)
    first = FirstAnswer([head + body])
    options[1] = f"http://127.0.0.1:{first.port}"

    importing = begin("import", "plants.csv", *options)
    first.thread.join(60)
    with Service(tmp_path, "--port", str(first.port), "--access-log") as service:
        said, _ = importing.communicate(timeout=60)

    assert said == "3 stored, 0 already there, 0 rejected\n"
    assert sum("POST" in line for line in service.log) == 3


def test_the_certificate_of_a_service_is_verified(
    tmp_path: Path, home: Path, tls: list[str]
) -> None:
    other = make_pair(home, "other")
    with Service(tmp_path, *tls) as service:
        options = with_token(service, home, scheme="https")

        unknown = run(home, "import", "plants.csv", *options)
        wrong = run(home, "export", *options, "--ca", str(other.certificate))
        trusted = run(home, "import", "plants.csv", *options, "--ca", str(tmp_path / "tls.crt"))

    assert (unknown.returncode, wrong.returncode) == (1, 1)
    assert "is not trusted: self-signed certificate" in unknown.stderr
    assert "is not trusted" in wrong.stderr
    assert trusted.stdout == "3 stored, 0 already there, 0 rejected\n"


def test_an_error_of_the_service_is_one_line(home: Path, options: list[str]) -> None:
    (home / "wrong").write_text("plants_" + "A" * 43, encoding="ascii")
    url = options[:2]

    wrong_token = run(home, "import", "plants.csv", *url, "--token-file", "wrong")
    wrong_path = run(home, "export", "--url", f"{url[1]}/garden", *options[2:])

    assert (wrong_token.returncode, wrong_path.returncode) == (1, 1)
    assert wrong_token.stderr.startswith(f"plantstore: {url[1]} answered 401: ")
    assert wrong_path.stderr.endswith("answered 404: There is nothing at this path\n")
    assert wrong_token.stderr.count("\n") == wrong_path.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [
        b"<html>",
        b"{}",
        b'{"status":"ok"}',
        b'{"stored":2,"refused":1}',
        b'{"stored":2,"refused":1,"errors":[{"line":4,"error":1002,"message":"m"}]}',
    ],
)
def test_another_server_is_not_taken_for_a_plant_store(home: Path, content: bytes) -> None:
    (home / "token").write_text("t", encoding="ascii")
    page = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(content), content)
    servers = [FirstAnswer([page]), FirstAnswer([page])]
    urls = [f"http://127.0.0.1:{server.port}" for server in servers]

    imported = run(home, "import", "plants.csv", "--url", urls[0], "--token-file", "token")
    exported = run(home, "export", "--url", urls[1], "--token-file", "token")

    for server in servers:
        server.thread.join(60)
    said = "plantstore: {} sent something else; is it a plant store?\n"
    assert (imported.returncode, imported.stderr) == (1, said.format(urls[0]))
    assert (exported.returncode, exported.stderr) == (1, said.format(urls[1]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--url", "ftp://a", "--token-file", "token"], "--url must be the URL of a service"),
        (["--url", "https://a?b", "--token-file", "token"], "--url must be the URL of a service"),
        (["--url", "https://a:x", "--token-file", "token"], "--url must be the URL of a service"),
        (["--url", "https://a"], "--url needs --token-file"),
        (["--token-file", "token"], "--token-file needs --url"),
        (["--ca", "token"], "--ca needs --url"),
        (["--url", "https://a", "--token-file", "words"], "must contain one token"),
        (["--url", "https://a", "--token-file", "token", "--ca", "token"], "--ca: token is no"),
        (["--url", "http://:b@a", "--token-file", "token"], "--url must be the URL of a service"),
        (["--url", "http://[::1]", "--token-file", "token", "--ca", "token"], "--ca has no effect"),
        (["--url", "https://a", "--database", "sqlite:///b"], "--database has no effect with"),
    ],
)
def test_options_that_cannot_work_are_refused(home: Path, arguments: list[str], said: str) -> None:
    (home / "token").write_text("t", encoding="ascii")
    (home / "words").write_text("two words", encoding="ascii")

    for command in (["import", "plants.csv"], ["export"]):
        done = run(home, *command, *arguments)

        assert done.returncode == 2, done.stderr
        assert said in done.stderr
        assert done.stderr.count("\n") == 1
