"""`plantstore serve`: checks the settings, and starts the processes of the service.

With `--workers`, it is the parent of processes that run `python -m plantstore.cli.serve`.
"""

import contextlib
import errno
import fcntl
import ipaddress
import logging
import os
import pickle
import re
import signal
import socket
import ssl
import sys
from functools import partial
from typing import Final, NoReturn

import click

from plantstore.api.cors import parse_origin
from plantstore.api.limits import RatePerToken
from plantstore.cli.opening import database_option, open_named
from plantstore.cli.token_commands import show_new_token
from plantstore.cli.wiring import Telemetry, run_process, tls_context
from plantstore.commit.batcher import NO_TURNSTILE
from plantstore.errors import (
    OperationError,
    PlantStoreError,
    StoreUnavailableError,
    UsageError,
    quoted,
)
from plantstore.server.process import Turnstile, raise_file_limit, set_up_memory, shared_folder
from plantstore.server.serving import stop_signals
from plantstore.server.supervisor import Supervisor
from plantstore.settings import Settings, unknown_variables, variable_of
from plantstore.storage import display_url, has_one_writer, identify_files, require_files
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.file import set_up_sqlite
from plantstore.store import Store
from plantstore.telemetry.log import LogQueue, configure_logs
from plantstore.telemetry.metrics import make_own_folder
from plantstore.tokens import SCOPES

# How long workers may take to end after the timeout of a shutdown, to commit what they accepted.
LAST_COMMITS_SECONDS: Final = 10.0


def run(settings: Settings) -> None:
    """Serve until a signal stops the process."""
    set_up_memory()
    set_up_sqlite()
    log = configure_logs()
    # Until the event loop, or the parent of workers, handles signals.
    for number in stop_signals():
        signal.signal(number, partial(_exit, log))
    for warning in unknown_variables():
        logging.getLogger(__name__).warning(warning)
    _check_proxies_and_rates(settings)
    _check_tls(settings)
    raise_file_limit()
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(listen(settings.host, settings.port))
        with contextlib.ExitStack() as opened:
            telemetry = Telemetry(log, settings)
            store = opened.enter_context(contextlib.closing(open_store_of(settings, telemetry)))
            store.keep_changes(settings.changes_keep)
            _introduce(store, settings, listener, log)
            if settings.workers == 1:
                opened.pop_all()  # the application closes the store
                run_process(settings, store, telemetry, listener)
                return
            files = identify_files(settings.database)
            if files is None:
                opened.close()  # connections to a server are few
            folder = opened.enter_context(shared_folder())
            # Workers have standard streams of their own in place of 0 and 1.
            descriptor = fcntl.fcntl(listener, fcntl.F_DUPFD_CLOEXEC, 3)
            supervisor = Supervisor(
                [sys.executable, "-P", "-m", __name__],
                # Its stdin: other users can see arguments and variables, and the URL of the
                # database may have a password.
                pickle.dumps((settings, folder, files, descriptor)),
                descriptor,
                workers=settings.workers,
                signals=stop_signals(),
                stop_accepting=partial(listener.shutdown, socket.SHUT_RDWR),
                drain_seconds=settings.drain_seconds,
                stop_seconds=settings.drain_seconds + settings.stop_seconds + LAST_COMMITS_SECONDS,
                observe=telemetry.observe,
            )
            status = supervisor.run()
        if status:
            raise click.exceptions.Exit(status)


def run_worker() -> None:
    """Open the store for this process, and serve until a signal or the end of the parent."""
    settings, folder, files, listener = pickle.load(sys.stdin.buffer)  # noqa: S301 (of the parent)
    set_up_memory()
    set_up_sqlite()
    log = configure_logs()
    shared = folder if make_own_folder(folder) else None
    telemetry = Telemetry(log, settings, shared)
    try:
        require_files(settings.database, files)
        store = open_store_of(settings, telemetry)
    except PlantStoreError as error:
        # The parent opened the store before, so the failure is new. It tries again, and the other
        # workers continue meanwhile.
        log.write(f"plantstore: {error.explanation}\n")
        sys.exit(1)
    turnstile = Turnstile(shared) if shared and has_one_writer(settings.database) else NO_TURNSTILE
    run_process(settings, store, telemetry, socket.socket(fileno=listener), turnstile)


def open_store_of(settings: Settings, telemetry: Telemetry) -> Store:
    """Open the store of the settings."""
    return open_named(
        settings.database,
        SchemaPolicy.MIGRATE if settings.migrate else SchemaPolicy.COMPLETE,
        standbys_min=settings.standbys_min,
        observe=telemetry.observe,
    )


def _exit(log: LogQueue, _signal: int, _frame: object) -> NoReturn:
    """End this process, which may have been interrupted anywhere.

    An exception could leave a lock locked, for which the process would then wait forever. All that
    is on disk is whole at any moment.
    """
    log.drain()
    os._exit(0)


def _check_proxies_and_rates(settings: Settings) -> None:
    """Raise UsageError if a rate, an origin or a proxy is malformed, before anything is opened."""
    RatePerToken(settings.rate_per_token)
    for origin in settings.allow_origin:
        parse_origin(origin)
    for network in settings.trusted_proxy:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise UsageError(
                "--trusted-proxy must be an address such as 10.0.0.7, or a network such as"
                f" 10.0.0.0/24; got {quoted(network)}"
            ) from error


def _check_tls(settings: Settings) -> None:
    """Raise UsageError if the certificate or its key cannot be used."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        if key is not None:
            raise UsageError("--tls-key needs --tls-certificate")
        return
    option, file = ("--tls-certificate", certificate) if key is None else ("--tls-key", key)
    pem = file.read_text("latin-1")  # RFC 7468
    if "CERTIFICATE-----" not in certificate.read_text("latin-1"):
        raise UsageError(f"--tls-certificate: {certificate} has no certificate in PEM")
    if "PRIVATE KEY-----" not in pem:
        raise UsageError(
            f"{option}: {file} has no private key in PEM; name its file with --tls-key"
        )
    if re.search("^(-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED)", pem, re.MULTILINE):
        raise UsageError(
            f"{option}: {file} has a passphrase; remove it: openssl pkey -in FILE -out NEW_FILE"
        )
    try:
        tls_context(settings)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            message = f"{option}: {file} is not the key of the certificate {certificate}"
            raise UsageError(message) from error
        reason = (error.reason or "they are damaged").replace("_", " ").lower()
        raise UsageError(
            f"--tls-certificate: {certificate} and its private key cannot be used: {reason}"
        ) from error


def _introduce(store: Store, settings: Settings, listener: socket.socket, log: LogQueue) -> None:
    """Print a first token if there is none, and then the address of the service."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    scheme = "http" if settings.tls_certificate is None else "https"
    url = f"{scheme}://{f'[{host}]' if address.version == 6 else host}:{port}"  # noqa: PLR2004
    database = display_url(settings.database)
    if address.is_loopback and not store.list_tokens():
        # This fails if another process has created the token in the meantime, if stdout is closed,
        # or if nothing can be stored now.
        with contextlib.suppress(OperationError, StoreUnavailableError):
            show_new_token(store, "first", SCOPES, text=_GREETING.replace("{url}", url))
    if not store.list_tokens():
        log.write(_WARNING.format(option=database_option(settings.database)))
    log.write(f"Serving {database} on {url}\n")
    log.drain()


_WARNING: Final = """\
There are no tokens yet, so requests that need one are refused. Create a token:

    plantstore token create NAME --scope all{option}

"""

_GREETING: Final = """
There are no tokens yet, so here is a first one, with all permissions.
It is shown only once:

    {secret}

Store a plant:

    curl -i {url}/plants \\
      -H 'Authorization: Bearer {secret}' \\
      -H 'Content-Type: application/json' \\
      -d '{{"id": 1, "name": "Abies balsamea (L.) Mill.", "tag": "Abies"}}'

Or open {url} in a browser and sign in with the token.

"""


# Another process uses the port, or only a privileged process may use it.
_PORT_ERRORS: Final = (errno.EADDRINUSE, errno.EACCES)


def listen(host: str, port: int) -> socket.socket:
    """Listen on an address; `::` is all addresses of IPv6 and IPv4. Port 0 chooses a free port.

    Raises:
        UsageError: the host is not a valid name.
        OperationError: the host is unknown, or the port is in use.

    """
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        is_dual = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server((address[0], port), family=family, dualstack_ipv6=is_dual)
    except UnicodeError as error:
        raise UsageError(f"--host must be an address or a host name, got {quoted(host)}") from error
    except OSError as error:
        reason = error.strerror
        if error.errno and not isinstance(error, socket.gaierror):
            reason = os.strerror(error.errno)  # without the address, which Python adds
        advice = ""
        if error.errno in _PORT_ERRORS:  # `make run` and containers pass no options
            advice = f"; choose another port with --port or {variable_of('port')}"
        raise OperationError(f"Cannot listen on {host}, port {port}: {reason}{advice}") from error


if __name__ == "__main__":
    run_worker()
