"""Prints the functions that a service calls for one create: `python -m support.calls PORT TOKEN`.

It serves in this process, from the current folder, and another thread is the client.
"""

import json
import os
import signal
import socket
import sys
import threading
from itertools import pairwise
from pathlib import Path
from types import FrameType

import plantstore
from plantstore.cli import main
from support.postgres import wait_until
from support.wire import head

SOURCE = str(Path(plantstore.__file__).parent) + "/"

# The first creates fill caches. What only some of the others call, time and chance call.
FIRST_CREATES = 40
CREATES = 20

calls: list[dict[str, None]] = [{}]


def note(frame: FrameType, event: str, _argument: object) -> None:
    """Note a call of a function of the package, in order of the first calls."""
    path = frame.f_code.co_filename
    if event == "call" and path.startswith(SOURCE):
        name = frame.f_code.co_qualname.rpartition(".")[2]
        if not name.startswith("<"):  # a part of the function around it
            calls[-1][f"{path.removeprefix(SOURCE)} {name}"] = None


def create_plants(port: int, token: str) -> None:
    sys.setprofile(None)
    wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
    client = socket.create_connection(("127.0.0.1", port))
    for id_ in range(FIRST_CREATES + CREATES):
        calls.append({})
        body = b'{"id":%d,"name":"Abies balsamea (L.) Mill.","tag":"Abies"}' % (id_ + 10)
        client.sendall(head(token, b"Content-Length: %d" % len(body)) + body)
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
    # The service does the last of a create while the client begins the next one.
    every = [one | after for one, after in pairwise(calls[FIRST_CREATES:])]
    common = [each for each in every[0] if all(each in others for others in every)]
    Path("calls.json").write_text(json.dumps(common), encoding="utf-8")
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    port, token = sys.argv[1:]
    threading.Thread(target=create_plants, args=(int(port), token), daemon=True).start()
    threading.setprofile(note)
    sys.setprofile(note)
    sys.argv[1:] = ["serve", "--port", port]
    main()
