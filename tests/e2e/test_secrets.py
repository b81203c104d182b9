"""A token in an unexpected part of a request never appears in a response or a log line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from support.service import Service, opened

# This many consecutive characters of a secret are a leak.
LEAKED_CHARACTERS = 10

Request = tuple[str, str, str | None, dict[str, str]]


def percent(text: str) -> str:
    """Encode each character."""
    return "".join(f"%{ord(character):02x}" for character in text)


def escaped(text: str) -> str:
    """Encode each character as in JSON."""
    return "".join(f"\\u{ord(character):04x}" for character in text)


# tests/unit/test_tokens.py has more of them.
ENCODINGS: list[Callable[[str], str]] = [str, percent]
IN_JSON: list[Callable[[str], str]] = [str, escaped]

TARGETS = [
    *("/{}", "/plants/{}", "/plants/1{}", "/plants/{padding}{}", "/assets/{}/{}", "/metrics/{}"),
    *("/plants?after={}", "/plants?limit={padding}{}", "/plants?{}=1&{}=2", "/plants/1?{}"),
    # Paddings of different lengths, so that messages truncate the token at different places.
    *(f"/plants?after={'7' * length}{{}}" for length in range(20, 41, 4)),
]

FIELDS = [
    *("Content-Type", "Content-Encoding", "Accept", "If-None-Match", "Range", "traceparent"),
    *("tracestate", "X-Request-Id", "User-Agent", "Referer", "Cookie", "Expect"),
]


def requests_with(token: str) -> Iterator[Request]:
    for target in TARGETS:
        for encode in ENCODINGS:
            yield "GET", target.format(*[encode(token)] * 2, padding="9" * 30), None, {}
    for field in FIELDS:
        for encode in ENCODINGS:
            yield "POST", "/plants", '{"id":1,"name":"a"}', {field: encode(token)}
        yield "GET", "/plants", None, {field: token}
    for body in ('{"id":"@","name":"a"}', '{"id":[1,{"@":"@"}],"name":"a"}', '"@"'):
        for encode in IN_JSON:
            yield "POST", "/plants", body.replace("@", encode(token)), {}
    yield "POST", "/plants", f"{token}", {}
    yield "POST", "/plants", json.dumps({"id": 1, token: token}), {}
    yield "POST", "/plants", f'{{"id":{token},"name":"a"}}', {}
    yield "PUT", f"/plants/{token}", "{}", {}
    yield "DELETE", f"/plants/{percent(token)}", None, {}
    yield "OPTIONS", f"/{token}", None, {}
    yield "TRACE", f"/plants?{token}", None, {}
    for value in (token, f"Basic {token}", f"Bearer {token}x", f"Bearer  {percent(token)}"):
        yield "GET", "/plants", None, {"Authorization": value}


def test_no_secret_is_in_a_response_a_metric_the_log_or_the_list_of_processes(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--access-log", "--workers", "2") as service:
        token = service.token()
        with service.client(token) as client:
            answers = [client.send(*request) for request in requests_with(token)]
            answers += [client.send("GET", "/metrics")]
        with service.client(None) as client:
            answers += [client.send(*request) for request in requests_with(token)]
        processes = [
            Path(f"/proc/{pid}/{what}").read_bytes()
            for pid in (service.process.pid, *service.children())
            for what in ("cmdline", "environ")
        ]
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in service.children()]

    assert not [answer for answer in answers if answer.status >= 500]
    assert not any(token.encode() in process for process in processes)
    # The URL of a database may have a password, and other users can see the command of a worker.
    assert len(commands) == 2
    assert not any(b"plants.db" in command for command in commands)
    assert len(service.log) > len(answers)
    assert service.has_logged("/plants/plst_...")
    said = [f"{answer.headers} {answer.body.decode()}" for answer in answers] + service.log
    said = [text.replace("\\\\", "\\") for text in said]
    secret = token.removeprefix("plst_")
    parts = [secret[at : at + LEAKED_CHARACTERS] for at in range(len(secret) - LEAKED_CHARACTERS)]
    assert not [line for line in said if any(part in line for part in parts)]
    encoded = [encode(part) for part in parts for encode in (percent, escaped)]
    assert not [line for line in said if any(part in line.lower() for part in encoded)]
    with opened(service.database) as store:
        assert store.count_plants() <= 1
