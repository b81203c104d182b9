"""The files of the page, the files of the API reference, and the OpenAPI document."""

from importlib import resources


def read_document() -> bytes:
    """Return the OpenAPI 3.1 document, as JSON text."""
    return (resources.files("plantstore.web") / "openapi.json").read_bytes()
