"""Schemathesis hooks: they prepare the store, and make files of plants.

A valid plant is refused with 400 if another plant is stored under its id. With the id free, the
service must accept every valid plant, and Schemathesis can check that. So the id of each plant is
freed before Schemathesis creates it. The store stays unchanged before reads, replacements and
deletions.

Schemathesis knows no files of plants. The service must accept every text as a file of JSON lines,
and every CSV file with a header, and refuse single rows. So there are no invalid files here.

If a plant is stored under one of the last ids, the service has no ids to hand out, which is 400.
Such plants are deleted before it is asked for ids.

It does not know that an undo makes its changes in another set than the one that it undoes.

It does not know which parameters exclude each other, so a query that it takes for valid is made so.

It does not know the other spellings of true and false, which the service takes.

It does not know the grammar of If-Match and If-None-Match either, so a malformed field is replaced.
"""

import os
from typing import Any

import msgspec
import schemathesis
from hypothesis import strategies as st
from schemathesis import GenerationMode

from plantstore.changes import Deletion, entity_tag, parse_precondition
from plantstore.errors import OperationError, RequestError
from plantstore.formats import FORMATS
from plantstore.listings import Listing
from plantstore.plants import NewPlant, Plant
from plantstore.storage import open_store

SET = "Change-Set"
FILES = ("/plants.csv", "/plants.ndjson", "/changes")

store = open_store(os.environ["PLANTS"])

texts = st.text(st.characters(exclude_categories=["Cs"]))
plants = st.builds(NewPlant, st.integers(-(2**63), 2**63 - 1), texts, st.none() | texts)
states = st.none() | st.builds(Plant, texts, st.none() | texts)
lines = st.lists(st.fixed_dictionaries({"id": st.integers(), "before": states, "after": states}))
rows = (
    st.binary()
    | st.lists(plants).map(FORMATS["jsonl"].render)
    | lines.map(msgspec.json.Encoder().encode_lines)
)


# Spellings of true and false that the document does not have.
OTHER_FLAGS = ("", "0", "1")


def is_file(content: bytes) -> bool:
    """Return whether a file is text, and not refused as a whole."""
    parser = FORMATS["jsonl"].parser()
    try:
        parser.feed(content)
        parser.finish()
    except OperationError:
        return False
    return True


schemathesis.openapi.media_type("application/x-ndjson", rows.filter(is_file))
schemathesis.openapi.media_type(
    "text/csv", rows.map(lambda some: FORMATS["csv"].head + some).filter(is_file)
)


@schemathesis.hook
def before_load_schema(_context: Any, document: Any) -> None:
    """Remove the examples of files, which are texts: a strategy must make bytes.

    Add examples of conditions. The document has none, because the reference would send them.
    """
    for name in ("IfMatch", "IfNoneMatch"):
        document["components"]["parameters"][name]["example"] = entity_tag("a", None)
    for path in FILES:
        [content] = document["paths"][path]["post"]["requestBody"]["content"].values()
        del content["example"]


def make_valid(query: dict[str, Any]) -> None:
    """Remove the parameters that exclude others, or lack another one."""
    if "order" in query and "sort" in query:
        del query["order"]
    if query.get("sort", query.get("order")) == "name":
        query.pop("before", None)
        if "from" not in query:
            query.pop("after", None)
    else:
        query.pop("from", None)
    if "untagged" in query:
        query.pop("tag", None)


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    for name in {"If-Match", "If-None-Match"} & set(case.headers or ()):
        try:
            parse_precondition(case.headers[name], None)
        except RequestError:
            case.headers[name] = entity_tag("not stored", None)
    if case.query and case.meta.generation.mode is GenerationMode.POSITIVE:
        make_valid(case.query)
    for name in {"untagged", "dry-run"} & set(case.query or ()):
        if str(case.query[name]) in OTHER_FLAGS:
            case.query[name] = "neither"
    own_set = (case.headers or {}).get(SET)
    if own_set is not None and own_set == (case.query or {}).get("set"):
        del case.headers[SET]
    if case.path == "/ids":
        last = store.list_plants(Listing(after=2**62, limit=1000)).items
        store.apply_changes([Deletion(plant.id) for plant in last])
    creates = case.method == "POST" and isinstance(case.body, dict)
    id_ = case.body.get("id") if creates else None
    if isinstance(id_, int | float) and -(2**63) <= id_ < 2**63:
        store.apply_changes([Deletion(int(id_))])
