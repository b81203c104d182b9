"""Real reverse proxies with the configurations of docs/reverse-proxy.md."""

import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from support.certificates import Pair, make_pair
from support.postgres import wait_until
from support.service import Client

PAGE = Path(__file__).parents[2] / "docs/reverse-proxy.md"
PREFIX = "/garden"

# The address of the client. The proxy has 127.0.0.1.
CLIENT = "127.0.0.2"

NAMES = ("nginx", "haproxy", "caddy")

# Also searches /usr/sbin and this Python environment, which may not be in PATH.
_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])


class Running(NamedTuple):
    """A running proxy."""

    port: int
    certificate: Path


class Through(Client):
    """One persistent connection through a proxy."""

    def __init__(self, running: Running, token: str | None, address: str = CLIENT) -> None:
        super().__init__(running.port, token)
        context = ssl.create_default_context(cafile=str(running.certificate))
        self.url = f"https://127.0.0.1:{running.port}"
        self.connection = http.client.HTTPSConnection(
            "127.0.0.1", running.port, timeout=30, context=context, source_address=(address, 0)
        )


def program(name: str) -> str:
    """Return the path of an executable."""
    found = shutil.which(name, path=_PATH)
    assert found is not None, f"{name} is not installed: make setup programs"
    return found


def snippet(name: str) -> str:
    """Return the configuration of a proxy in docs/reverse-proxy.md, which is the first one."""
    return _blocks(name)[0]


def limits(name: str) -> dict[str, str]:
    """Return the changes of the configuration that limit the requests of each address."""
    lines = _blocks(name)[-1]
    if name == "haproxy":
        return {"    http-request redirect": f"{lines}    http-request redirect"}
    outer, inner = lines.split("# In `server`\n")
    place = "    server_name garden.example;\n"
    return {"upstream plantstore {": f"{outer}upstream plantstore {{", place: place + inner}


def _blocks(name: str) -> list[str]:
    language = {"caddy": "caddyfile"}.get(name, name)
    block = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return block.findall(PAGE.read_text("utf-8"))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def front(
    name: str, folder: Path, service_port: int, changes: dict[str, str] | None = None
) -> Iterator[Running]:
    """Run a proxy in front of a service, with the configuration of the page but other ports.

    `changes` replaces texts in the configuration; each text must occur in it.
    """
    port = free_port()
    folder.mkdir()
    pair = make_pair(folder)
    command, adapted = _CONFIGURATIONS[name](folder, port, pair)
    text = replaced(
        snippet(name), {"127.0.0.1:8000": f"127.0.0.1:{service_port}"} | adapted | (changes or {})
    )
    _write(name, folder, text)
    homes = {"HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    with running_program(folder, port, program(name), *command, env=os.environ | homes):
        yield Running(port, pair.certificate)


@contextlib.contextmanager
def running_program(
    folder: Path, port: int, *command: str | Path, **options: Any
) -> Iterator[None]:
    """Run a program that accepts connections on a port, until the block ends."""
    log = folder / f"{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, **({"cwd": folder} | options), stdout=output, stderr=output
        )

    def accepts() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    try:
        wait_until(accepts)
        yield
    finally:
        process.terminate()
        process.wait(60)


def replaced(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        assert old in text, f"the page does not show this: {old}"
        text = text.replace(old, new)
    return text


def _write(name: str, folder: Path, text: str) -> None:
    if name == "nginx":
        paths = "".join(
            f"{kind}_temp_path {folder}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        text = f"events {{}}\nhttp {{\naccess_log off;\n{paths}{text}\n}}\n"
    elif name == "caddy":
        text = f"{{\nadmin off\nauto_https disable_redirects\n}}\n{text}"
    (folder / "configuration").write_text(text, "utf-8")


def _nginx(folder: Path, port: int, pair: Pair) -> tuple[list[str], dict[str, str]]:
    # Otherwise its workers could not write into the folder of the test.
    user = "user root;" if os.geteuid() == 0 else ""
    directives = f"daemon off; pid {folder}/pid; error_log stderr; {user}"
    return ["-p", str(folder), "-c", "configuration", "-e", "stderr", "-g", directives], {
        "listen 443": f"listen 127.0.0.1:{port}",
        "/etc/ssl/garden.example.crt": str(pair.certificate),
        "/etc/ssl/garden.example.key": str(pair.key),
    }


def _haproxy(folder: Path, port: int, pair: Pair) -> tuple[list[str], dict[str, str]]:
    both = folder / "both.pem"
    both.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
    return ["-db", "-f", "configuration"], {
        "bind :443": f"bind 127.0.0.1:{port}",
        "/etc/haproxy/garden.example.pem": str(both),
    }


def _caddy(_folder: Path, port: int, pair: Pair) -> tuple[list[str], dict[str, str]]:
    return ["run", "--config", "configuration", "--adapter", "caddyfile"], {
        "garden.example {": f"https://127.0.0.1:{port} {{\ntls {pair.certificate} {pair.key}"
    }


_CONFIGURATIONS = {"nginx": _nginx, "haproxy": _haproxy, "caddy": _caddy}
