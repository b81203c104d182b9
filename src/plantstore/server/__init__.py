"""The HTTP/1.1 server: its interface, the protocol, limits of clients, and processes."""
