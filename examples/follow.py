"""Keeps a copy of all plants in a file: `python follow.py http://HOST:PORT FILE`.

The variable PLANTSTORE_TOKEN has a token with the scopes plants:read and changes:read. The first
line of the file is the number of the last change in the copy, and each other line is a plant.
"""

import json
import os
import sys
import time
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

if len(sys.argv) != 3 or "PLANTSTORE_TOKEN" not in os.environ:
    sys.exit(__doc__)
url, file = sys.argv[1], Path(sys.argv[2])
headers = {"Authorization": f"Bearer {os.environ['PLANTSTORE_TOKEN']}"}
number, *lines = file.read_text().split("\n") if file.exists() else [""]
plants = {plant["id"]: plant for plant in map(json.loads, lines)}
while True:
    path = f"/changes?after={number}&limit=1000" if number else "/plants.ndjson"
    try:
        with urlopen(Request(url + path, None, headers), timeout=60) as answer:
            records = [json.loads(line) for line in answer]
    except (OSError, HTTPException) as error:
        status = getattr(error, "code", 503)
        if status not in (410, 429) and status < 500:
            raise
        number = "" if status == 410 else number  # this copy cannot continue
        time.sleep(1)
        continue
    plants = plants if number else {plant["id"]: plant for plant in records}
    for change in records[0] if number else []:
        plants.pop(change["plant"]["id"], None)
        if change["change"] != "deleted":
            plants[change["plant"]["id"]] = change["plant"]
    if records != [[]]:
        number, new = answer.headers["Changes-After"], file.with_suffix(".new")
        new.write_text("\n".join([number, *map(json.dumps, plants.values())]))
        new.replace(file)  # the file always has a complete copy
    if records == [[]]:
        time.sleep(1)
