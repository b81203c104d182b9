"""A program on the Python client that openapi-generator makes: `python plants.py URL TOKEN`."""

import json
import sys
from collections.abc import Callable
from typing import Any

from openapi_client import (
    AdditionsApi,
    ApiClient,
    ApiException,
    Configuration,
    Error,
    NewPlant,
    PlantPatch,
    PlantsApi,
)

url, token = sys.argv[1:]
client = ApiClient(Configuration(host=url, access_token=token))
stranger = ApiClient(Configuration(host=url, access_token="unknown"))
plants, additions = PlantsApi(client), AdditionsApi(client)
BIG = 2**53 + 1
CSV = "id,name,tag\n-7,Rosa canina,Rosa\n3,Betula nana,Alba\n"
LINES = '{"id":3,"name":"Picea"}\n{"id":4,"name":"Rosa alba","tag":"Rosa"}\n'


def refusal(call: Callable[[], Any]) -> list[int]:
    try:
        call()
    except ApiException as error:
        return [error.status, error.data.error]
    return []


rosa = plants.create_plant(NewPlant(id=-7, name="Rosa × damascena", tag="Rosa"))
abies = plants.create_plant(NewPlant(id=BIG, name="Abies"))
big = additions.get_plant(BIG)
everything = additions.list_plants()
some = additions.list_plants(limit=1, after=-8, tag="Rosa")
renamed = additions.patch_plant(-7, PlantPatch(name="Rosa alba"))
untagged = additions.patch_plant(-7, PlantPatch(tag=None))
imported = [
    additions.import_plants_csv(CSV),
    additions.import_plants_csv(CSV, on_conflict="replace"),
    additions.import_plants_ndjson(on_conflict="skip", body=LINES),
]
# The client itself reads JSON and text/* only.
lines = additions.export_plants_ndjson_without_preload_content(tag="Rosa", q="alb")
later = Error.from_json('{"error": 1999, "message": "a", "detail": "b"}')
found = {
    "created": [[rosa.name, rosa.tag], [abies.name, abies.tag]],
    "got": [str(big.id), big.name, big.tag],
    "everything": [str(plant.id) for plant in everything],
    "some": [str(plant.id) for plant in some],
    "patched": [[renamed.name, renamed.tag], [untagged.name, untagged.tag]],
    "imported": [[each.stored, each.replaced, each.skipped, each.refused] for each in imported],
    "exported": [additions.export_plants_csv(tag="Rosa"), lines.data.decode()],
    "refused": [
        refusal(lambda: plants.create_plant(NewPlant(id=-7, name="Abies"))),
        refusal(lambda: additions.get_plant(2)),
        refusal(lambda: additions.patch_plant(-7, PlantPatch(name="Abies"), if_match='"old"')),
        refusal(lambda: AdditionsApi(stranger).list_plants()),
    ],
    "later": later.error,
}
json.dump(found, sys.stdout)
