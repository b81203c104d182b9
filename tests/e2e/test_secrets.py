"""A token in an unexpected part of a request never appears in a response or a log line."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from support.service import Service, opened

# This many consecutive characters of a secret are a leak.
LEAKED_CHARACTERS = 10


def percent(text: str) -> str:
    """Encode each character."""
    return "".join(f"%{ord(character):02x}" for character in text)


ENCODINGS: list[Callable[[str], str]] = [
    str,
    lambda token: token.replace("_", "%5F"),
    lambda token: token.replace("_", "%5f"),
    lambda token: quote(token.replace("_", "%5F")),
    lambda token: f"%70{token[1:]}",
    lambda token: f"p%6c{token[2:]}",
    percent,
]

IN_JSON: list[Callable[[str], str]] = [
    str,
    lambda token: f"\\u0070{token[1:]}",
    lambda token: token.replace("_", "\\u005F"),
    lambda token: token.replace("_", "%5F"),
    lambda token: "".join(f"\\u{ord(character):04x}" for character in token),
]

TARGETS = [
    "/{}",
    "/{}/{}",
    "/plants/{}",
    "/plants/{}/",
    "/plants/1{}",
    "/plants/{padding}{}",
    "/plants?after={}",
    "/plants?limit={}",
    "/plants?limit={padding}{}",
    "/plants?{}",
    "/plants?{}=1",
    "/plants?{}=1&{}=2",
    "/plants/1?{}",
    "/assets/{}/{}",
    "/metrics/{}",
]

FIELDS = [
    "Content-Type",
    "Content-Encoding",
    "Accept",
    "If-None-Match",
    "Range",
    "traceparent",
    "tracestate",
    "X-Request-Id",
    "User-Agent",
    "Referer",
    "Cookie",
    "Expect",
]


def test_no_response_and_no_log_line_contains_a_secret(tmp_path: Path) -> None:
    with Service(tmp_path, "--access-log") as service:
        token = service.token()
        client = service.client(token)
        plain = service.client(None)
        # Paddings of different lengths, so that messages truncate the token at different places.
        targets = TARGETS + [f"/plants?after={'7' * length}{{}}" for length in range(20, 41, 4)]
        requests = [
            *(
                ("GET", target.format(*[encode(token)] * 2, padding="9" * 30), None, {})
                for target in targets
                for encode in ENCODINGS
            ),
            *(
                (method, "/plants", '{"id":1,"name":"a"}', {field: encode(token)})
                for method in ("GET", "POST")
                for field in FIELDS
                for encode in ENCODINGS
            ),
            *(
                ("POST", "/plants", body.replace("@", encode(token)), {})
                for body in ('{"id":"@","name":"a"}', '{"id":[1,{"@":"@"}],"name":"a"}', '"@"')
                for encode in IN_JSON
            ),
            ("POST", "/plants", f"{token}", {}),
            ("POST", "/plants", json.dumps({"id": 1, token: token}), {}),
            ("POST", "/plants", f'{{"id":{token},"name":"a"}}', {}),
            ("PUT", f"/plants/{token}", "{}", {}),
            ("DELETE", f"/plants/{percent(token)}", None, {}),
            ("OPTIONS", f"/{token}", None, {}),
            ("TRACE", f"/plants?{token}", None, {}),
        ]

        answers = [client.send(*request) for request in requests]
        answers += [plain.send(*request) for request in requests]
        answers += [
            plain.send("GET", "/plants", headers={"Authorization": value})
            for value in (token, f"Basic {token}", f"Bearer {token}x", f"Bearer  {percent(token)}")
        ]
        client.close()
        plain.close()

    assert not [answer for answer in answers if answer.status >= 500]
    said = [f"{answer.headers} {answer.body.decode()}" for answer in answers] + service.log
    said = [text.replace("\\\\", "\\") for text in said]
    assert len(service.log) > len(answers)
    secret = token.removeprefix("plst_")
    parts = [secret[at : at + LEAKED_CHARACTERS] for at in range(len(secret) - LEAKED_CHARACTERS)]
    assert not [line for line in said if any(part in line for part in parts)]
    encoded = [percent(part) for part in parts]
    encoded += ["".join(f"\\u{ord(character):04x}" for character in part) for part in parts]
    assert not [line for line in said if any(part in line.lower() for part in encoded)]
    with opened(service.database) as store:
        assert store.count_plants() <= 1
