"""The health check of the container image: exit status 0 if the service answers, 1 if it does not.

It requests `/healthz`, not `/readyz`. Docker Swarm, Podman and others restart or replace an
unhealthy container. While the database is down or its disk is full, a restart does not help.
"""

import os
import ssl
import sys
import urllib.request

# Less than the timeout of HEALTHCHECK in the Containerfile, so that the reason can be printed.
TIMEOUT_SECONDS = 4


def main() -> None:
    """Send a request to the service in this container, with the port and scheme of its settings."""
    scheme = "https" if os.environ.get("PLANTSTORE_TLS_CERTIFICATE") else "http"
    url = f"{scheme}://localhost:{os.environ.get('PLANTSTORE_PORT', '8000')}/healthz"
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}),  # HTTP_PROXY applies to other hosts only
        # The certificate is for the name of the service, not for localhost. Clients verify it.
        urllib.request.HTTPSHandler(context=ssl._create_unverified_context()),  # noqa: S323, SLF001
    )
    try:
        opener.open(url, timeout=TIMEOUT_SECONDS).close()
    except OSError as error:
        sys.exit(f"{url} does not answer: {error}")


if __name__ == "__main__":
    main()
