"""Each response is reported with the route and the status that were sent."""

import asyncio
from typing import Any

import pytest
from falcon.asgi import App, Request, Response

from plantstore.api.errors import handle_errors
from plantstore.api.service import Router, Service
from plantstore.errors import ErrorCode
from plantstore.observe import Answered, Event, RequestFailed, RequestRefused
from support.world import noting_status


class Forgetful:
    """Sets a status or fails, and reports nothing."""

    async def on_get(self, _req: Request, resp: Response, name: str) -> None:
        resp.status = int(name)

    async def on_post(self, _req: Request, _resp: Response, name: str) -> None:
        raise ZeroDivisionError(name)


class Told:
    """An application that records its events and the messages that it sent."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sent: list[Any] = []
        router = Router()
        app: App[Request, Response] = App(router=router)
        app.add_route("/things/{name}", Forgetful())
        handle_errors(app, self.events.append)
        self.service = Service(
            app, router=router, is_full=lambda: False, observe=self.events.append
        )

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def fail_once(self, message: Any) -> None:
        """Fail to send the first message, as happens for a field that contains a line end."""
        self.sent.append(message)
        if len(self.sent) == 1:
            raise RuntimeError("A field of the answer has a line end in it")

    def serve(self, method: str, path: str, send: Any) -> None:
        scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
        scope |= {"method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
        scope |= {"headers": [], "client": None, "server": None, "scheme": "http", "root_path": ""}
        asyncio.run(self.run(scope, send))

    async def run(self, scope: dict[str, Any], send: Any) -> None:
        await noting_status(self.service)(scope, self.receive, send)

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/things/202", "/things/{name}", 202),
        ("GET", "/things/304", "/things/{name}", 304),
        ("POST", "/things/x", "/things/{name}", 500),
        ("PUT", "/things/x", "/things/{name}", 405),
        ("GET", "/nowhere", "", 404),
        ("GET", "//things/202", "", 404),
    ],
)
def test_a_response_is_reported_with_its_route_and_the_status_that_was_sent(
    method: str, path: str, route: str, status: int
) -> None:
    told = Told()

    told.serve(method, path, told.send)

    [answered] = [event for event in told.events if isinstance(event, Answered)]
    assert (answered.route, answered.status) == (route, status)
    assert told.sent[0]["status"] == status


def test_a_response_that_cannot_be_sent_becomes_a_500_with_the_request_id_of_the_log() -> None:
    told = Told()

    told.serve("GET", "/things/202", told.fail_once)

    start = told.sent[1]
    [failed] = [event for event in told.events if isinstance(event, RequestFailed)]
    [answered] = [event for event in told.events if isinstance(event, Answered)]
    assert (start["status"], answered.status, answered.route) == (500, 500, "/things/{name}")
    assert dict(start["headers"])[b"x-request-id"].decode() == failed.request_id
    assert RequestRefused(ErrorCode.INTERNAL) in told.events
