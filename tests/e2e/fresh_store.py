"""A hook of Schemathesis: each of its creates finds its id free.

Whether a valid plant is taken depends on what is stored: another one under its
id is a 400, as the contract wants it. With its id free, every valid plant must
be taken, and Schemathesis may hold the service to that. What it reads, replaces and
deletes after a create, it finds as it left it.
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
