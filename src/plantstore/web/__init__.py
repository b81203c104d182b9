"""The files of the page, the files of the API reference, and the OpenAPI document."""
