"""The operations on other servers: the tests of the API, with requests over TCP.

So an operation knows nothing of our server but `plantstore.server.interface`.
"""

import asyncio
import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

import httpx
import pytest

from harness import free_port
from other_servers import SERVERS
from plantstore.plants import NewPlant
from plantstore.server.connection import Server
from plantstore.server.interface import Request, Response
from support.world import World, until

ROOT = Path(__file__).parents[2]

# Tests that need no server, or only ours.
NOT_OURS = {
    "test_connection.py": "the connections of our server",
}
NOT_OVER_TCP = {
    "test_auth.py::test_without_a_valid_token_the_response_is_a_401_with_a_challenge": (
        "expects the address 127.0.0.1:123, and httpx refuses to send `Bearer `"
    ),
    "test_auth.py::test_of_many_tokens_that_wait_to_be_looked_up_further_ones_are_503": (
        "cancels requests before they are sent"
    ),
    "test_change.py::test_put_with_if_none_match_any_never_replaces_a_plant": (
        "expects that requests sent together are accepted in order"
    ),
    "test_change.py::test_the_json_media_type_is_accepted_in_every_spelling[application/json ; ]": (
        "httpx refuses to send a space behind a value"
    ),
    "test_change.py::test_an_endless_chunked_body_is_read_only_up_to_the_limit": (
        "sockets hold more than the limit, and the server resets the connection"
    ),
    "test_ids.py::test_requests_that_wait_for_ids_share_one_commit": (
        "expects all requests in one iteration of the event loop"
    ),
    "test_ids.py::test_when_too_many_requests_wait_for_ids_a_further_one_is_503": (
        "httpx does not open a thousand connections within the timeout of a test"
    ),
    "test_imports.py::test_an_import_that_is_cancelled_twice_keeps_its_place_until_its_batch_is"
    "_settled": "cancels the operation, which other servers do not",
    "test_imports.py::test_threads_switch_faster_until_the_last_import_ends": (
        "a client in the process disturbs the threads"
    ),
    "test_imports.py::test_a_body_that_ends_early_or_is_too_slow_keeps_what_was_stored": (
        "httpx reads a response only after it has sent the whole body, which never ends"
    ),
    "test_operations.py::test_no_request_leaves_a_reference_cycle": (
        "a client in the process leaves some"
    ),
}


@pytest.mark.parametrize("server", SERVERS)
def test_the_operations_pass_the_tests_of_the_api_on_another_server(server: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-nauto", "tests/api"]
    command += [f"--ignore=tests/api/{name}" for name in NOT_OURS]
    command += [f"--deselect=tests/api/{name}" for name in NOT_OVER_TCP]
    env = os.environ | {"PLANTSTORE_TEST_SERVER": server}

    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1_800, check=False
    )

    assert done.returncode == 0, done.stdout


@contextlib.asynccontextmanager
async def streaming(
    world: World, config: Server, server: str, path: str
) -> AsyncIterator[httpx.Response]:
    """Send a request to the application of a world on a server; yield the head of the response."""
    port = free_port()
    fields = {"Authorization": f"Bearer {world.token}", "Accept": "text/event-stream"}
    async with (
        SERVERS[server](config, world.parts, port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=fields) as client,
        client.stream("GET", path) as response,
    ):
        yield response


@pytest.mark.parametrize("server", SERVERS)
def test_a_stream_has_each_change_at_once_and_ends_when_its_client_leaves(server: str) -> None:
    world = World()
    limit = world.parts.changes.limit

    async def follow() -> tuple[bytes, bytes, int]:
        async with streaming(world, world.server, server, "/changes?after=now") as response:
            pieces = response.aiter_bytes()
            position = await anext(pieces)
            world.put_in(NewPlant(1, "a"))
            event, running = await anext(pieces), limit.running
            await response.aclose()
            await until(lambda: not limit.running)
            return position, event, running

    position, event, running = asyncio.run(asyncio.wait_for(follow(), 30))

    assert b"event: position" in position
    assert b"event: created" in event
    assert running == 1


class Failing:
    """Fails in a response."""

    async def __call__(self, request: Request) -> Response:  # noqa: ARG002
        async def body() -> AsyncGenerator[bytes, None]:
            yield b"a piece"
            raise ZeroDivisionError

        return Response(200, body=body())

    def fail(self, error: BaseException, request: Request) -> Response:  # noqa: ARG002
        raise error


@pytest.mark.parametrize("server", ["uvicorn", "granian"])  # RSGI has no way to do this
def test_a_response_that_fails_is_cut_off(server: str) -> None:
    world = World()

    async def read() -> list[bytes]:
        config = dataclasses.replace(world.server, application=Failing())
        async with streaming(world, config, server, "/") as response:
            return [piece async for piece in response.aiter_bytes()]

    with pytest.raises(httpx.RemoteProtocolError):
        asyncio.run(asyncio.wait_for(read(), 30))
