"""The interface document: written by hand, as the contract, and held to by the tests."""

from importlib import resources

from falcon.asgi import Request, Response


def read_document() -> bytes:
    """Return the OpenAPI 3.1 document, as JSON text."""
    return (resources.files("plantstore.web") / "openapi.json").read_bytes()


class Document:
    """`/openapi.json`."""

    def __init__(self) -> None:
        self._document = read_document()

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer the interface document. No token is needed."""
        resp.data = self._document

    on_head = on_get
