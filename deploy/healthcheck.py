"""The health check of the container image: exit status 0 if the service answers, 1 if it does not.

It asks `/healthz`, not `/readyz`. Docker Swarm, Podman and others restart or replace a container
that is unhealthy, and while the database is away or its disk is full, a restart does not help.
"""

import os
import ssl
import sys
import urllib.request

# Less than the timeout of HEALTHCHECK in the Containerfile, so that the reason is printed.
TIMEOUT_SECONDS = 4


def main() -> None:
    """Ask the service in this container, as its variables say where it listens."""
    scheme = "https" if os.environ.get("PLANTSTORE_TLS_CERTIFICATE") else "http"
    url = f"{scheme}://localhost:{os.environ.get('PLANTSTORE_PORT', '8000')}/healthz"
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),  # HTTP_PROXY is for other hosts
        # The certificate has the name of the service; that it is valid is for clients to check.
        urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),  # noqa: S323, SLF001
    )
    try:
        opener.open(url, timeout=TIMEOUT_SECONDS).close()
    except OSError as error:
        sys.exit(f"{url} does not answer: {error}")


if __name__ == "__main__":
    main()
