"""The socket that `plantstore serve` listens on."""

import errno
import os
import socket
from typing import Final

from plantstore.errors import OperationError, UsageError

# Another process uses the port, or only a privileged process may use it.
_PORT_ERRORS: Final = (errno.EADDRINUSE, errno.EACCES)


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; port 0 chooses a free port.

    Raises:
        UsageError: the host is not a valid name.
        OperationError: the host is unknown, or the port is in use.

    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server((address[0], port), family=family)
    except UnicodeError as error:
        raise UsageError(f"--host must be an address or a host name, got {host!r}") from error
    except OSError as error:
        reason = error.strerror
        if error.errno and not isinstance(error, socket.gaierror):
            reason = os.strerror(error.errno)  # without the address, which Python adds
        advice = "; choose another port with --port" if error.errno in _PORT_ERRORS else ""
        raise OperationError(f"Cannot listen on {host}, port {port}: {reason}{advice}") from error
