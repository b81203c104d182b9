"""The table of operations: what the service does for each method of each path.

Routing, 404, 405, HEAD, OPTIONS, CORS, the labels of the metrics and the scopes follow from it. So
do parts of the interface document and of the tests.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from plantstore.api import change_feed, exports
from plantstore.api.auth import ANY_SCOPE, Authenticator, show_token
from plantstore.api.bulk_changes import BulkChanges
from plantstore.api.change_feed import ChangeFeed
from plantstore.api.exports import Exports
from plantstore.api.file_imports import LIST_SCOPES, FileImports
from plantstore.api.ids import Ids
from plantstore.api.monitoring import Measurements, Readiness, show_liveness
from plantstore.api.parameters import MEDIA_JSON
from plantstore.api.plants import PATCHES, Plants, scope_of_put
from plantstore.api.static_files import Web, redirect_to_reference
from plantstore.api.tags import list_tags
from plantstore.api.undos import Undos
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.formats import FORMATS
from plantstore.messages import Request, Response


@dataclass(frozen=True, slots=True)
class Parts:
    """What the operations are made of."""

    authenticator: Authenticator
    writer: GroupCommit
    reader: GroupRead
    plants: Plants
    changes: ChangeFeed
    ids: Ids
    bulk: BulkChanges
    imports: FileImports
    undos: Undos
    exports: Exports
    readiness: Readiness
    metrics: Measurements
    web: Web


# What a token needs. ANY_SCOPE means that every token will do, and None that no token is needed. Of
# several, separated by spaces, one is enough. It may depend on the request.
Scope: TypeAlias = str | Callable[[Request], str] | None

Respond: TypeAlias = Callable[[Request], Awaitable[Response]]


class Operation(NamedTuple):
    """An operation.

    Attributes:
        method: of its requests. An operation with GET also responds to HEAD.
        path: of its requests. Its last segment may be `{id}`.
        scope: that their token needs.
        media_types: of their bodies; empty if the operation reads no body.
        respond: returns the function that responds.

    """

    method: str
    path: str
    scope: Scope
    media_types: tuple[str, ...]
    respond: Callable[[Parts], Respond]


_ID: Final = "/plants/{id}"
_RECORD: Final = (MEDIA_JSON,)
_CSV, _NDJSON = (FORMATS["csv"].media_type,), (FORMATS["ndjson"].media_type,)

OPERATIONS: Final = (
    Operation("POST", "/plants", "plants:create", _RECORD, lambda parts: parts.plants.create),
    Operation("GET", "/plants", "plants:read", (), lambda parts: parts.plants.list),
    Operation("GET", "/tags", "plants:read", (), lambda parts: partial(list_tags, parts.reader)),
    Operation("GET", "/plants.csv", exports.SCOPE, (), lambda parts: parts.exports.run),
    Operation("POST", "/plants.csv", "plants:create", _CSV, lambda parts: parts.imports.run),
    Operation("GET", "/plants.ndjson", exports.SCOPE, (), lambda parts: parts.exports.run),
    Operation("POST", "/plants.ndjson", "plants:create", _NDJSON, lambda parts: parts.imports.run),
    Operation("GET", _ID, "plants:read", (), lambda parts: parts.plants.show),
    Operation("PUT", _ID, scope_of_put, _RECORD, lambda parts: parts.plants.put),
    Operation("PATCH", _ID, "plants:update", PATCHES, lambda parts: parts.plants.patch),
    Operation("DELETE", _ID, "plants:delete", (), lambda parts: parts.plants.delete),
    Operation("GET", "/changes", change_feed.SCOPE, (), lambda parts: parts.changes.follow),
    Operation("POST", "/changes", LIST_SCOPES, _NDJSON, lambda parts: parts.imports.change),
    # The scopes that it needs depend on the set.
    Operation("POST", "/undo", ANY_SCOPE, (), lambda parts: parts.undos.run),
    Operation("POST", "/ids", "plants:create", (), lambda parts: parts.ids.hand_out),
    Operation(
        "GET", "/token", ANY_SCOPE, (), lambda parts: partial(show_token, parts.authenticator)
    ),
    Operation("GET", "/openapi.json", None, (), lambda parts: parts.web.document.show),
    Operation("GET", "/healthz", None, (), lambda _parts: show_liveness),
    Operation("GET", "/readyz", None, (), lambda parts: parts.readiness.show),
    Operation("GET", "/metrics", "metrics:read", (), lambda parts: parts.metrics.show),
    # For browsers.
    Operation("GET", "/", None, (), lambda parts: parts.web.page.show),
    Operation("GET", "/docs", None, (), lambda parts: parts.web.reference.show),
    Operation("GET", "/docs/", None, (), lambda _parts: redirect_to_reference),
)
