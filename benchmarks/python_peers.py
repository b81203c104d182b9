"""The compared servers that are written in Python, including ours."""

import secrets
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from harness import HERE, make_token, plantstore, script
from peer import APPS, DATABASE, Peer, any_token, make_table, said

# The other servers have their own environment, so their packages do not affect ours.
PYTHON = HERE.parent / ".venv-peers" / "bin" / "python"


def _ours(*packages: str) -> Callable[[], str]:
    return lambda: ", ".join(f"{package} {version(package)}" for package in packages)


def _theirs(*packages: str) -> Callable[[], str]:
    program = (
        "import sys; from importlib.metadata import version; "
        "print(', '.join(f'{package} {version(package)}' for package in sys.argv[1:]))"
    )
    return lambda: said(str(PYTHON), "-c", program, *packages)


def _fastapi(folder: Path, port: int, token: str) -> list[str]:
    return [*script("fastapi_sqlalchemy.py", folder / DATABASE, port), token]


def _litestar(folder: Path, port: int, token: str) -> list[str]:
    app = APPS / "litestar_sqlalchemy.py"
    return [str(PYTHON), str(app), str(folder / DATABASE), str(port), token]


def _django(folder: Path, port: int, token: str) -> list[str]:
    command = [str(PYTHON), "-m", "gunicorn", "--chdir", str(APPS), "--threads", "4"]
    command += ["--bind", f"127.0.0.1:{port}", "--env", f"DATABASE={folder / DATABASE}"]
    return [*command, "--env", f"TOKEN={token}", "django_ninja:application"]


def _prepare_datasette(folder: Path) -> str:
    make_table(folder / DATABASE)
    secret = secrets.token_hex()
    (folder / "secret").write_text(secret, encoding="ascii")
    return said(str(PYTHON), "-m", "datasette", "create-token", "benchmark", "--secret", secret)


def _datasette(folder: Path, port: int, _token: str) -> list[str]:
    command = [str(PYTHON), "-m", "datasette", "serve", str(folder / DATABASE)]
    command += ["--port", str(port), "--setting", "permissions.insert-row.id", "benchmark"]
    return [*command, "--secret", (folder / "secret").read_text(encoding="ascii")]


PLANTSTORE = Peer(
    "Plant Store",
    Path(sys.executable),
    lambda folder: make_token(folder / DATABASE),
    lambda folder, port, _token: plantstore(folder / DATABASE, port),
    _ours("plantstore", "apsw", "uvloop"),
    "default",
)


def _granian(folder: Path, port: int, _token: str) -> list[str]:
    return script("rsgi.py", folder / DATABASE, port)


GRANIAN = Peer(
    "Plant Store on Granian",
    Path(sys.executable),
    PLANTSTORE.prepare,
    _granian,
    _ours("granian"),
    "the operations and the store of Plant Store, behind Granian's RSGI",
)

FASTAPI = Peer(
    "FastAPI + SQLAlchemy",
    Path(sys.executable),
    any_token,
    _fastapi,
    _ours("fastapi", "sqlalchemy", "uvicorn"),
    "the tutorial's synchronous sessions; WAL, `synchronous = FULL`",
)

LITESTAR = Peer(
    "Litestar + SQLAlchemy",
    PYTHON,
    any_token,
    _litestar,
    _theirs("litestar", "advanced-alchemy", "sqlalchemy", "aiosqlite", "uvicorn"),
    "the tutorial's asynchronous sessions; WAL, `synchronous = FULL`",
)

DJANGO = Peer(
    "Django Ninja",
    PYTHON,
    any_token,
    _django,
    _theirs("django-ninja", "django", "gunicorn"),
    "Django's ORM, persistent connections, four gunicorn threads, which were faster than"
    " uvicorn; WAL, `synchronous = FULL` by `init_command`",
)

DATASETTE = Peer(
    "Datasette",
    PYTHON,
    _prepare_datasette,
    _datasette,
    _theirs("datasette", "uvicorn"),
    "its JSON write API with a signed token, one row per request; WAL, `synchronous` at SQLite's"
    " default, which is FULL",
    target=f"/{Path(DATABASE).stem}/plants/-/insert",
    body='{"row":%s}',
)
