"""Imports a CSV file so that it can be taken back: `python undo_import.py http://HOST:PORT FILE`.

If it breaks off, call it again. With `undo` as a third argument, it takes back what the import
changed, unless somebody has changed it since. FILE.undo has what this needs, besides the feed of
changes, which must still have those since the import. FILE has commas and a header with `id,name`
or `id,name,tag`; its plants replace those with their ids. The variable PLANTSTORE_TOKEN has a token
with the scopes plants:create, plants:read, plants:update, plants:delete and changes:read.
"""

import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from client import PlantStore

Plant = dict[str, Any]
Rows = dict[str, list[dict[str, str]]]  # by id


def read_rows(file: Path) -> Rows:
    rows: Rows = {}
    with file.open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines, restval=""):
            rows.setdefault(row["id"], []).append(row)
    return rows


def import_file(store: PlantStore, file: Path, undo: Path, rows: Rows) -> None:
    is_again = undo.exists()
    if is_again:
        state = json.loads(undo.read_text())
        if "after" in state:
            sys.exit(f"{file} is imported. Take it back, or delete {undo}")
    else:
        export = store.send("GET", "/plants.ndjson")
        number = int(export.headers["Changes-After"])
        plants = map(json.loads, export.content.splitlines())
        old = [plant for plant in plants if str(plant["id"]) in rows]
        state = {"export": number, "before": number, "old": old}
        undo.write_text(json.dumps(state))
    answer = store.send("POST", "/plants.csv?on-conflict=replace", content=file.read_bytes())
    if not is_again:  # what broke off may have stored a part
        state["before"] = int(answer.headers["Changes-Before"])
    state["after"] = int(answer.headers["Changes-After"])
    undo.write_text(json.dumps(state))
    print(answer.json())


def undo_import(store: PlantStore, state: dict[str, Any], rows: Rows) -> None:
    plants: dict[int, Plant | None] = {plant["id"]: plant for plant in state["old"]}
    imported: dict[int, tuple[Plant | None, Plant]] = {}  # before the import, and after it
    for change in changes(store, state["export"], state["after"]):
        plant, id_ = change["plant"], change["plant"]["id"]
        # The changes of others are between the two numbers, too.
        if change["number"] > state["before"] and is_in(rows, plant):
            old, _ = imported.get(id_, (plants.get(id_), plant))
            imported[id_] = old, plant
        else:
            imported.pop(id_, None)
        plants[id_] = None if change["change"] == "deleted" else plant
    for id_, (old, new) in imported.items():
        condition = {"If-Match": entity_tag(new)}
        try:
            if old is None:
                store.send("DELETE", f"/plants/{id_}", headers=condition)
            else:
                store.send("PUT", f"/plants/{id_}", headers=condition, json=old)
            print(f"{id_} is as before")
        except httpx.HTTPStatusError as error:
            if error.response.status_code not in (404, 412):
                raise
            print(f"{id_} has been changed since, and stays as it is")


def changes(store: PlantStore, after: int, last: int) -> Iterator[dict[str, Any]]:
    while after < last:
        page = store.send("GET", "/changes", params={"after": after, "limit": 1000})
        after = int(page.headers["Changes-After"])
        yield from (change for change in page.json() if change["number"] <= last)


def is_in(rows: Rows, plant: Plant) -> bool:
    """Return whether a row has this plant. An empty cell is no tag."""
    name, tag = plant.get("name"), plant.get("tag", "")
    found = rows.get(str(plant["id"]), [])
    return any(name == row["name"] and tag == row.get("tag", tag) for row in found)


def entity_tag(plant: Plant) -> str:
    text = "\0".join(plant[key] for key in ("name", "tag") if key in plant)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4) or "PLANTSTORE_TOKEN" not in os.environ:
        sys.exit(__doc__)
    client, file = PlantStore(sys.argv[1], os.environ["PLANTSTORE_TOKEN"]), Path(sys.argv[2])
    undo = Path(f"{file}.undo")
    if sys.argv[3:] == ["undo"]:
        undo_import(client, json.loads(undo.read_text()), read_rows(file))
        undo.unlink()
    else:
        import_file(client, file, undo, read_rows(file))
