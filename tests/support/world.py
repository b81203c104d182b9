"""The application in the test's process, with a clock that the test sets."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from plantstore.api.operations import Renderings
from plantstore.cli.wiring import make_app, make_parts, running
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ErrorCode
from plantstore.observe import Responded
from plantstore.plants import NewPlant
from plantstore.server.interface import RESPONSE_STATUS, ASGIApp, Event, Receive, Scope, Send
from plantstore.settings import Settings
from plantstore.store import Store
from plantstore.tokens import SCOPES, TokenRecord, digest, mint
from support.fake_store import FakeStore, WatchedStore

if TYPE_CHECKING:
    from plantstore.observe import Event as Observed

EventT = TypeVar("EventT", bound="Observed")
ResultT = TypeVar("ResultT")

JSON = {"Content-Type": "application/json"}
PATCHED = {"Content-Type": "application/merge-patch+json"}
VALID = b'{"id": 1, "name": "Abies balsamea (L.) Mill.", "tag": "Abies"}'


# Fake metrics: the content of each format is only the name of the format.
METRICS: dict[str, Callable[[], bytes]] = {
    "text/plain; version=0.0.4; charset=utf-8": lambda: b"text",
    "application/openmetrics-text; version=1.0.0; charset=utf-8": lambda: b"openmetrics",
}


async def receive_nothing() -> dict[str, Any]:
    """Receive an empty body."""
    return {"type": "http.request", "body": b"", "more_body": False}


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks and threads run until a condition holds."""
    while not condition():  # noqa: ASYNC110 (another thread makes it hold)
        await asyncio.sleep(0)


def noting_status(app: ASGIApp) -> ASGIApp:
    """Note the status of each response in the scope, as the server does."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        async def send_noted(event: Event) -> None:
            if event["type"] == "http.response.start":
                scope[RESPONSE_STATUS] = event["status"]
            await send(event)

        await app(scope, receive, send_noted)

    return serve


class World:
    """The application with its dependencies, and a fake store unless another is given.

    It serves from the beginning of a `with` block to its end. Its event loop runs only while a
    method sends requests, or `run` runs a coroutine.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        waiting_changes_max: int = 100,
        waiting_reads_max: int = 100,
        metrics: Renderings = METRICS,
        **settings: Any,
    ) -> None:
        self.store = WatchedStore(FakeStore() if store is None else store)
        self.store.keep_changes(7)
        self.now = 1000.0
        self.events: list[Observed] = []
        self.answers: list[Responded] = []
        self.settings = Settings(**settings)
        self.parts = make_parts(
            self.settings,
            self.store,
            observe=self.observe,
            metrics=metrics,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            make_writer=partial(GroupCommit, waiting_max=waiting_changes_max),
            make_reader=partial(GroupRead, waiting_max=waiting_reads_max),
        )
        self.app = make_app(self.settings, self.store, self.parts)
        transport = httpx.ASGITransport(app=noting_status(self.app))  # type: ignore[arg-type]
        self.client = httpx.AsyncClient(transport=transport, base_url="http://plants")
        self.token = self.add_token("all", *SCOPES)
        self._runner = asyncio.Runner()
        self._opened = contextlib.AsyncExitStack()

    def __enter__(self) -> Self:
        self.run(self._opened.enter_async_context(running(self.parts)))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._opened.aclose())
        self._runner.close()

    def run(self, coroutine: Awaitable[ResultT]) -> ResultT:
        """Run a coroutine on the event loop of the application; return its result."""
        return self._runner.run(asyncio.wait_for(coroutine, 30))

    def add_token(self, name: str, *scopes: str, **changes: Any) -> str:
        token = mint()
        granted = frozenset(scopes or SCOPES)
        self.store.add_token(TokenRecord(name, digest(token), granted, 0, **changes))
        return token

    def observe(self, event: "Observed") -> None:
        if isinstance(event, Responded):
            self.answers.append(event)
        else:
            self.events.append(event)

    def told(self, kind: type[EventT]) -> list[EventT]:
        """Return the events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def put_in(self, *plants: NewPlant) -> None:
        """Store plants directly, without the service."""
        self.store.apply_changes(plants)

    def post(self, content: Any = VALID, *more: Any, **named: Any) -> httpx.Response:
        """Create a plant."""
        return self.send("POST", "/plants", content, *more, **named)

    def get(self, path: str, **fields: str) -> httpx.Response:
        """Read with the token that has all scopes, and with these fields."""
        return self.send("GET", path, fields={k.replace("_", "-"): v for k, v in fields.items()})

    def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request without a token, and with nothing but what the test gives."""
        return self.run(self.client.request(method, path, **options))

    def send(self, method: str, path: str, *more: Any, **named: Any) -> httpx.Response:
        """Send a request. The arguments are those of `sending`."""
        return self.run(self.sending(method, path, *more, **named))

    def send_together(self, *requests: Sequence[Any]) -> list[httpx.Response]:
        """Send requests at the same time. Each has the arguments of `send`."""

        async def gather() -> list[httpx.Response]:
            return list(await asyncio.gather(*(self.sending(*request) for request in requests)))

        return self.run(gather())

    async def sending(
        self,
        method: str,
        path: str,
        content: Any = None,
        token: str | None = None,
        fields: dict[str, str] | None = None,
    ) -> httpx.Response:
        """Send a request with a token that has all scopes, or with this token; and with fields."""
        headers = {"Authorization": f"Bearer {token or self.token}"}
        if content is not None:
            headers |= PATCHED if method == "PATCH" else JSON
        headers |= fields or {}
        return await self.client.request(method, path, content=content, headers=headers)

    def scope_of(self, method: str, path: str, **fields: str) -> dict[str, Any]:
        """Return the ASGI scope of a request with the token and with fields."""
        fields = {"host": "x", "authorization": f"Bearer {self.token}"} | fields
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "client": None,
            "server": None,
            "scheme": "http",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }


def assert_error(answer: httpx.Response, status: int, code: ErrorCode, said: str = "") -> None:
    """Assert that a response is an Error record with these numbers, and that it says this."""
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.json()) == {"error", "message"}
    assert said in answer.json()["message"]
