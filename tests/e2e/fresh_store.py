"""A Schemathesis hook that frees the id of each plant before Schemathesis creates it.

A valid plant is refused with 400 if another plant is stored under its id. With the id
free, the service must accept every valid plant, and Schemathesis can check that. The
hook leaves the store unchanged before reads, replacements and deletions.
"""

import os
from typing import Any

import schemathesis

from plantstore.storage import open_store
from plantstore.store import Deletion

store = open_store(os.environ["PLANTS"])


@schemathesis.hook
def before_call(_context: Any, case: Any, _kwargs: Any) -> None:
    creates = case.method == "POST" and isinstance(case.body, dict)
    id_ = case.body.get("id") if creates else None
    if isinstance(id_, int | float) and -(2**63) <= id_ < 2**63:
        store.apply_changes([Deletion(int(id_))])
