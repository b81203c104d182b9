"""The HTTP/1.1 server: the protocol, limits of clients, and processes."""
