"""The application: finds the operation of a request, and checks its token."""

from collections.abc import Iterable

from plantstore.api.cors import CrossOrigin
from plantstore.api.error_responses import respond_to
from plantstore.api.operations import OPERATIONS, Parts, Respond, Scope
from plantstore.api.parameters import MERGE_PATCH
from plantstore.errors import ErrorCode, QueueFullError, RequestError
from plantstore.messages import Request, Response
from plantstore.observe import Observer

# Methods that change nothing, so they do not wait for a commit (RFC 9110 §9.2.1).
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

# Created only once: an overloaded service refuses many requests.
_QUEUE_FULL = QueueFullError()


class _Resource:
    """The operations of a path.

    Args:
        route: the label of the metrics.

    """

    def __init__(self, route: str) -> None:
        self.route = route
        self.operations: dict[str, tuple[Scope, Respond]] = {}
        self._media_types: set[str] = set()

    def add(
        self, method: str, scope: Scope, respond: Respond, media_types: Iterable[str] = ()
    ) -> None:
        self.operations[method] = scope, respond
        self._media_types.update(media_types)
        if method == "GET":
            self.operations["HEAD"] = scope, respond

    def allow(self) -> dict[str, str]:
        """Return the fields that tell what the path allows."""
        fields = {"Allow": ", ".join(sorted({*self.operations, "OPTIONS"}))}
        if MERGE_PATCH in self._media_types:
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
            resource.add(each.method, each.scope, each.respond(parts), each.media_types)
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
            scope, respond = operation
            if scope is not None:
                await self._authorize(request, scope if isinstance(scope, str) else scope(request))
            response = await respond(request)
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
