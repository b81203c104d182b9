"""Serves the OpenAPI document. It is written by hand, and tests compare the service with it."""

from importlib import resources

from falcon.asgi import Request, Response

from plantstore.api.compression import StaticContent


def read_document() -> bytes:
    """Return the OpenAPI 3.1 document, as JSON text."""
    return (resources.files("plantstore.web") / "openapi.json").read_bytes()


class Document:
    """`/openapi.json`."""

    def __init__(self) -> None:
        self._document = StaticContent(read_document())

    async def on_get(self, req: Request, resp: Response) -> None:
        """Respond with the document. No token is needed."""
        self._document.answer(req, resp)

    on_head = on_get
