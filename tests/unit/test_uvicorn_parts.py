"""The private parts of uvicorn that the service uses. These tests fail if they have changed."""

import asyncio
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState
from uvicorn.supervisors import Multiprocess

SOURCE = Path(__file__).parents[2] / "src/plantstore"

# The methods that are overridden or called, with their parameters.
METHODS: dict[type, dict[str, str]] = {
    HttpToolsProtocol: {
        "__init__": "self, config, server_state, app_state, _loop",
        "connection_made": "self, transport",
        "connection_lost": "self, exc",
        "data_received": "self, data",
        "on_message_begin": "self",
        "on_url": "self, url",
        "on_header": "self, name, value",
        "on_headers_complete": "self",
        "on_body": "self, body",
        "on_message_complete": "self",
        "on_response_complete": "self",
        "pause_writing": "self",
        "resume_writing": "self",
        "shutdown": "self",
        "_start_asgi_task": "self, cycle, app",
        "_unset_keepalive_if_required": "self",
    },
    RequestResponseCycle: {
        "__init__": "self, scope, transport, flow, logger, access_logger, access_log, "
        "default_headers, message_event, expect_100_continue, keep_alive, on_response",
        "run_asgi": "self, app",
        "send": "self, message",
        "send_500_response": "self",
        "receive": "self",
    },
    FlowControl: {
        "__init__": "self, transport",
        "drain": "self",
        "pause_reading": "self",
        "resume_reading": "self",
        "pause_writing": "self",
        "resume_writing": "self",
    },
    Multiprocess: {
        "__init__": "self, config, sockets",
        "run": "self",
        "join_all": "self",
        "handle_signals": "self",
        "handle_int": "self",
        "handle_term": "self",
    },
}

# The attributes that are read or set.
ATTRIBUTES: dict[type, str] = {
    HttpToolsProtocol: "access_logger app app_state asgi_version client config connections cycle "
    "expect_100_continue flow headers logger loop parser scheme server server_state tasks "
    "transport",
    RequestResponseCycle: "body chunked_encoding default_headers disconnected "
    "expected_content_length flow keep_alive message_event more_body on_response "
    "response_complete response_started scope transport waiting_for_100_continue",
    FlowControl: "read_paused write_paused",
    Multiprocess: "processes should_exit",
    ServerState: "connections default_headers tasks",
}

CHANGED = (
    f"uvicorn {uvicorn.__version__}: {{}} has changed. Compare uvicorn's source with that of the"
    " previous version, adapt plantstore/server/uvicorn_parts.py, and then this table."
)


@pytest.mark.parametrize("part", METHODS, ids=lambda part: part.__name__)
def test_the_methods_of_uvicorn_that_we_use_are_unchanged(part: type) -> None:
    found = {
        name: ", ".join(inspect.signature(getattr(part, name)).parameters)
        if hasattr(part, name)
        else "missing"
        for name in METHODS[part]
    }

    changed = [name for name in found if found[name] != METHODS[part][name]]
    assert not changed, CHANGED.format([f"{part.__name__}.{name}" for name in changed])


@pytest.mark.parametrize("part", ATTRIBUTES, ids=lambda part: part.__name__)
def test_the_attributes_of_uvicorn_that_we_use_still_exist(
    part: type,
) -> None:
    set_by_it = set(re.findall(r"self\.(\w+)(?:: [^=\n]+)? = ", inspect.getsource(part)))

    missing = set(ATTRIBUTES[part].split()) - set_by_it
    assert not missing, CHANGED.format([f"{part.__name__}.{name}" for name in missing])


def test_uvicorn_gives_the_state_of_the_application_to_each_connection() -> None:
    async def made() -> Any:
        config = uvicorn.Config(lambda: None, lifespan="off", log_config=None)
        return HttpToolsProtocol(config, ServerState(), {"key": "value"}, asyncio.get_event_loop())

    assert asyncio.run(made()).app_state == {"key": "value"}


def test_only_one_module_uses_the_private_parts_of_uvicorn() -> None:
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if re.search(r"uvicorn\.(protocols|server|lifespan|middleware)", path.read_text("utf-8"))
    }

    assert users == {"server/uvicorn_parts.py"}
