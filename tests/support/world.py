"""The application in the test's process, with a clock that the test sets."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import unquote

import httpx

from plantstore.cli.wiring import make_parts, make_server, running
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ErrorCode
from plantstore.messages import Request, Response
from plantstore.observe import Responded
from plantstore.plants import NewPlant
from plantstore.server.http11 import READ_FIELDS
from plantstore.settings import Settings
from plantstore.store import Store
from plantstore.threads import THREADS, Threads
from plantstore.tokens import SCOPES, TokenRecord, digest, mint
from support.stores import MemoryStore, WatchedStore

if TYPE_CHECKING:
    from plantstore.observe import Event as Observed

EventT = TypeVar("EventT", bound="Observed")
ResultT = TypeVar("ResultT")

JSON = {"Content-Type": "application/json"}
PATCHED = {"Content-Type": "application/merge-patch+json"}
VALID = b'{"id": 1, "name": "Abies balsamea (L.) Mill.", "tag": "Abies"}'


async def until(condition: Callable[[], object]) -> None:
    """Let other tasks and threads run until a condition holds."""
    while not condition():  # noqa: ASYNC110 (another thread makes it hold)
        await asyncio.sleep(0)


class ShownThreads(Threads):
    """Threads whose pools a test may use."""

    def __init__(self) -> None:
        self.pools: dict[str, Executor] = {}

    def pool(self, number: int, name: str) -> Executor:
        self.pools[name] = super().pool(number, name)
        return self.pools[name]


class Arriving:
    """The body of a request, as it arrives."""

    def __init__(self, request: httpx.Request) -> None:
        stream: Any = request.stream
        self._pieces = aiter(stream)

    def as_stream(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece: bytes = await anext(self._pieces)
        return piece


class InProcess(httpx.AsyncBaseTransport):
    """Sends requests to an application in this process, as its server does."""

    def __init__(self, world: "World") -> None:
        self._world = world

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path, _, query = request.url.raw_path.decode().partition("?")
        ours = Request(
            request.method,
            unquote(path),
            query,
            fields_of(request.headers.multi_items()),
            Arriving(request) if "transfer-encoding" in request.headers else await request.aread(),
            client=("127.0.0.1", 123),
            raw_path=path,
        )
        status, fields, body = await self._world.respond(ours)
        return httpx.Response(status, headers=fields, stream=httpx.ByteStream(body))


class Fields(dict[str, str]):
    """Header fields, of which only those may be read whose size the server bounds."""

    def get(self, name: str, default: Any = None) -> Any:
        assert name.encode() in READ_FIELDS | {b"content-length"}, f"{name} has no bound"
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None


def fields_of(lines: Iterable[tuple[str, str]]) -> Fields:
    """Return header fields by their names, as the server does."""
    fields: dict[str, str] = {}
    for name, value in lines:
        key = name.lower()
        fields[key] = f"{fields[key]},{value}" if key in fields else value
    return Fields(fields)


class World:
    """The application with its dependencies, and a store in memory unless another is given.

    It serves from the beginning of a `with` block to its end. Its event loop runs only while a
    method sends requests, or `run` runs a coroutine.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        waiting_changes_max: int = 100,
        render_metrics: Callable[[], bytes] = lambda: b"metrics",
        threads: Threads = THREADS,
        **settings: Any,
    ) -> None:
        self.store = WatchedStore(MemoryStore() if store is None else store)
        self.now = 1000.0
        self.events: list[Observed] = []
        self.answers: list[Responded] = []
        self.settings = Settings(**settings)
        self.store.keep_changes(self.settings.changes_keep)
        self.parts = make_parts(
            self.settings,
            self.store,
            observe=self.observe,
            render_metrics=render_metrics,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            make_writer=partial(GroupCommit, waiting_max=waiting_changes_max),
            threads=threads,
        )
        self.server = make_server(self.settings, self.parts, self.observe)
        self.app = self.server.application
        self.client = httpx.AsyncClient(transport=InProcess(self), base_url="http://plants")
        self.token = self.add_token("all", *SCOPES)
        self._runner = asyncio.Runner()
        self._errors: list[Any] = []
        self._runner.get_loop().set_exception_handler(
            lambda _loop, context: self._errors.append(context)
        )
        self._opened = contextlib.AsyncExitStack()

    def __enter__(self) -> Self:
        self.run(self._opened.enter_async_context(running(self.parts)))
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._opened.aclose())
        self._runner.close()
        assert not self._errors, "a callback failed"

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

    async def call(self, request: Request) -> Response:
        """Let the application respond to a request. The body is not read."""
        try:
            return await self.app(request)
        except Exception as error:  # noqa: BLE001 (the server passes each on)
            return self.app.fail(error, request)

    async def respond(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        """Let the application respond to a request; return the status, the fields and the body."""
        response = await self.call(request)
        body = response.body
        if isinstance(body, bytes):
            if response.status not in (204, 304):
                response.fields["Content-Length"] = str(len(body))
        else:
            async with contextlib.aclosing(body) as pieces:
                is_read = request.method != "HEAD"
                body = b"".join([each async for each in pieces]) if is_read else b""
        self.answers.append(Responded(request, response.status, 0.0))
        return response.status, response.fields, b"" if request.method == "HEAD" else body

    def request(self, method: str, path: str, **fields: str) -> Request:
        """Return a request with the token, and with fields."""
        fields = {"authorization": f"Bearer {self.token}"} | fields
        return Request(method, path, fields=fields, raw_path=path)


def assert_error(answer: httpx.Response, status: int, code: ErrorCode, said: str = "") -> None:
    """Assert that a response is an Error record with these numbers, and that it says this."""
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    assert answer.headers["Content-Type"] == "application/json"
    assert set(answer.json()) == {"error", "message"}
    assert said in answer.json()["message"]
