"""Serves the OpenAPI document. It is written by hand, and tests compare the service with it."""

from falcon.asgi import Request, Response

from plantstore.api.compression import StaticContent
from plantstore.web import read_document


class Document:
    """`/openapi.json`."""

    def __init__(self) -> None:
        self._document = StaticContent(read_document())

    async def on_get(self, req: Request, resp: Response) -> None:
        """Respond with the document. No token is needed."""
        self._document.answer(req, resp)

    on_head = on_get
