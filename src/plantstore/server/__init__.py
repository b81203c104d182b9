"""What stands between sockets and ASGI: HTTP/1.1 within bounds, and the processes that serve."""
