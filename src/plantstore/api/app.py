"""The application: the table of operations, and what finds the operation of a request in it.

Routing, 404, 405, HEAD, OPTIONS, CORS, the labels of the metrics and the scopes follow from the
table. So do parts of the interface document and of the tests.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from plantstore.api import change_feed, exports
from plantstore.api.auth import ANY_SCOPE, Authenticator, show_token
from plantstore.api.bulk_changes import CHANGE_SCOPES, BulkChanges
from plantstore.api.change_feed import ChangeFeed
from plantstore.api.cors import CrossOrigin
from plantstore.api.error_responses import respond_to
from plantstore.api.exports import Exports
from plantstore.api.file_imports import FileImports
from plantstore.api.ids import Ids
from plantstore.api.monitoring import Measurements, Readiness, show_liveness
from plantstore.api.parameters import MEDIA_JSON, MERGE_PATCH
from plantstore.api.plants import PATCHES, Plants, scope_of_put
from plantstore.api.static_files import Web, redirect_to_reference
from plantstore.api.tags import list_tags
from plantstore.api.undos import Undos
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ErrorCode, QueueFullError, RequestError
from plantstore.formats import FORMATS
from plantstore.messages import Request, Response
from plantstore.observe import Observer


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

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


class Operation(NamedTuple):
    """An operation.

    Attributes:
        method: of its requests. An operation with GET also responds to HEAD.
        path: of its requests. Its last segment may be `{id}`.
        scope: that their token needs.
        media_types: of their bodies; empty if the operation reads no body.
        handler_of: returns the function of the parts that responds.

    """

    method: str
    path: str
    scope: Scope
    media_types: tuple[str, ...]
    handler_of: Callable[[Parts], Handler]


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
    Operation("POST", "/changes", CHANGE_SCOPES, _NDJSON, lambda parts: parts.imports.change),
    Operation("POST", "/undo", CHANGE_SCOPES, (), lambda parts: parts.undos.run),
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

# Methods that change nothing, so they do not wait for a commit (RFC 9110 §9.2.1).
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

# Created only once: an overloaded service refuses many requests.
_QUEUE_FULL: Final = QueueFullError()


class _Resource:
    """The operations of a path.

    Args:
        route: the label of the metrics.

    """

    def __init__(self, route: str) -> None:
        self.route = route
        self.operations: dict[str, tuple[Scope, Handler]] = {}

    def add(self, method: str, scope: Scope, handler: Handler) -> None:
        self.operations[method] = scope, handler
        if method == "GET":
            self.operations["HEAD"] = scope, handler

    def allow(self) -> dict[str, str]:
        """Return the fields that tell what the path allows."""
        fields = {"Allow": ", ".join(sorted({*self.operations, "OPTIONS"}))}
        if "PATCH" in self.operations:
            fields["Accept-Patch"] = MERGE_PATCH  # RFC 5789 §3.1
        return fields


class App:
    """The application of a server (`plantstore.messages.Application`)."""

    def __init__(
        self, parts: Parts, *, cross_origin: CrossOrigin | None, observe: Observer
    ) -> None:
        self._resources: dict[str, _Resource] = {}
        for each in OPERATIONS:
            resource = self._resources.setdefault(each.path, _Resource(each.path))
            resource.add(each.method, each.scope, each.handler_of(parts))
        assets = parts.web.assets
        for name, file in assets.files.items():
            path = f"/assets/{assets.digest}/{name}"
            resource = self._resources[path] = _Resource("/assets/{digest}/{name}")
            resource.add("GET", None, file.show)
        self._authorize = parts.authenticator.authorize
        self._is_full = parts.writer.is_full
        self._cross_origin = cross_origin
        self._observe = observe

    async def __call__(self, request: Request) -> Response:
        """Return the response to a request, or raise the error that `fail` responds with."""
        resource = self._resources.get(request.path) or self._find_pattern(request.path)
        if resource is not None:
            request.route = resource.route
        # Before the token and the body are read: this takes less than half of the time, so refused
        # clients do not delay the others.
        if request.method not in _SAFE_METHODS and self._is_full():
            return self.fail(_QUEUE_FULL, request)
        if resource is None:
            raise RequestError(ErrorCode.NOT_FOUND, "There is nothing at this path")
        operation = resource.operations.get(request.method)
        if operation is not None:
            scope, handler = operation
            if scope is not None:
                await self._authorize(request, scope if isinstance(scope, str) else scope(request))
            response = await handler(request)
        elif request.method == "OPTIONS":
            response = Response(200, resource.allow())
        else:
            message = f"The method {request.method} is not allowed here"
            allow = {"Allow": resource.allow()["Allow"]}
            raise RequestError(ErrorCode.METHOD_NOT_ALLOWED, message, allow)
        if self._cross_origin is not None:
            self._cross_origin.allow(request, response)
        return response

    def fail(self, error: BaseException, request: Request) -> Response:
        """Return the response to a request that failed."""
        response = respond_to(error, request, self._observe)
        if self._cross_origin is not None:
            self._cross_origin.allow(request, response)
        return response

    def _find_pattern(self, path: str) -> _Resource | None:
        """Return the resource of a path with an id. `/plants/` has none, and `//plants` is none."""
        parent, _, id_ = path.rpartition("/")
        return self._resources.get(f"{parent}/{{id}}") if id_ else None
