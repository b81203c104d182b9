"""The HTTP/1.1 server between sockets and ASGI: protocol, limits and processes."""
