"""Every setting, once: its type, default, environment variable, bounds, and reason.

The command line makes its options from here, and docs/settings.md is held to it.
A setting is an option, or a `PLANTSTORE_` variable, or its default, in that order.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from typer import Option

from plantstore.errors import UsageError

KIB: Final = 1024
MIB: Final = 1024 * KIB

Database: TypeAlias = Annotated[
    str,
    Option(
        envvar="PLANTSTORE_DATABASE",
        metavar="URL",
        help="Where plants are kept: sqlite:///FILE, relative, or sqlite:////FILE, absolute, "
        "or postgresql://USER@HOST:PORT/NAME.",
    ),
]
DATABASE_DEFAULT: Final = "sqlite:///plants.db"

Migrate: TypeAlias = Annotated[
    bool,
    Option(
        envvar="PLANTSTORE_MIGRATE",
        help="Make the store, or bring its schema up to date, if need be. "
        "Without it, plantstore migrate does it.",
    ),
]
MIGRATE_DEFAULT: Final = True

StandbysMin: TypeAlias = Annotated[
    int,
    Option(
        envvar="PLANTSTORE_STANDBYS_MIN",
        min=0,
        help="Synchronous standbys of PostgreSQL that a change must stand on, beside the "
        "primary; with fewer it is answered with 503.",
    ),
]
STANDBYS_MIN_DEFAULT: Final = 0

BodyBytesMax: TypeAlias = Annotated[
    int,
    Option(
        envvar="PLANTSTORE_BODY_BYTES_MAX",
        min=1 * KIB,
        max=64 * MIB,
        help="Largest request body, and row of an import. A plant takes a hundred bytes.",
    ),
]
BODY_BYTES_MAX_DEFAULT: Final = 1 * MIB


@dataclass(frozen=True, slots=True)
class Settings:
    """What `plantstore serve` can be told."""

    host: Annotated[
        str,
        Option(
            envvar="PLANTSTORE_HOST",
            help="Address to listen on. The default keeps the service to this machine.",
        ),
    ] = "127.0.0.1"

    port: Annotated[
        int,
        Option(envvar="PLANTSTORE_PORT", min=0, max=65535, help="Port; 0 takes a free one."),
    ] = 8000

    database: Database = DATABASE_DEFAULT

    migrate: Migrate = MIGRATE_DEFAULT

    standbys_min: StandbysMin = STANDBYS_MIN_DEFAULT

    workers: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_WORKERS",
            min=1,
            max=64,
            help="Processes that serve. One fills a core; the disk takes one write at a time.",
        ),
    ] = 1

    body_bytes_max: BodyBytesMax = BODY_BYTES_MAX_DEFAULT

    head_bytes_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_HEAD_BYTES_MAX",
            min=1 * KIB,
            max=1 * MIB,
            help="Largest head of a request: request line and header fields. Browsers and "
            "proxies stay far below.",
        ),
    ] = 32 * KIB

    request_seconds: Annotated[
        float,
        Option(
            envvar="PLANTSTORE_REQUEST_SECONDS",
            min=0.1,
            max=3600,
            help="How long a request may take to arrive whole, and a new connection to begin one.",
        ),
    ] = 10

    connections_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_CONNECTIONS_MAX",
            min=1,
            help="Connections that may be open, in each worker; more are answered with 503.",
        ),
    ] = 10_000

    incoming_bytes_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_INCOMING_BYTES_MAX",
            min=64 * KIB,
            help="Bytes of requests without an answer, over all connections of a worker. While "
            "they are exceeded, a connection that holds more than its equal share gets 503.",
        ),
    ] = 32 * MIB

    unsent_bytes_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_UNSENT_BYTES_MAX",
            min=64 * KIB,
            help="Bytes of answers that clients have not taken, over all connections of a "
            "worker; past it, the slowest client is disconnected.",
        ),
    ] = 64 * MIB

    unsent_answers_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_UNSENT_ANSWERS_MAX",
            min=1,
            help="Large answers that may be on their way to slow clients, in each worker; past "
            "it, the slowest client is disconnected.",
        ),
    ] = 256

    idle_seconds: Annotated[
        float,
        Option(
            envvar="PLANTSTORE_IDLE_SECONDS",
            min=0.1,
            max=3600,
            help="How long a connection may be idle between two requests. Behind a proxy, more "
            "than the proxy keeps it.",
        ),
    ] = 75

    rate_per_token: Annotated[
        str | None,
        Option(
            envvar="PLANTSTORE_RATE_PER_TOKEN",
            metavar="RATE",
            help="How often a token may be used, in each worker, as in 100/second or "
            "100/second;5000/hour; more is answered with 429. No limit if not given.",
        ),
    ] = None

    queue_plants_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_QUEUE_PLANTS_MAX",
            min=1,
            help="Changes that may wait for their commit, in each worker; more are answered "
            "with 503. Ten thousand wait for less than a second.",
        ),
    ] = 10_000

    queue_characters_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_QUEUE_CHARACTERS_MAX",
            min=1 * KIB,
            # A batch travels as one JSON text, in which a character may take six bytes, and
            # SQLite takes a text of up to 1,000,000,000.
            max=128 * MIB,
            help="Characters of all names and tags that may wait, in each worker; more are "
            "answered with 503. It bounds the memory that large plants can take.",
        ),
    ] = 16 * MIB

    batch_plants_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_BATCH_PLANTS_MAX",
            min=1,
            max=10_000,
            help="Changes in one transaction. It bounds how long a commit makes its callers wait.",
        ),
    ] = 1_000

    queue_reads_max: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_QUEUE_READS_MAX",
            min=1,
            help="Look-ups that may wait, and listings that may wait, in each worker; more are "
            "answered with 503.",
        ),
    ] = 1_000

    stop_seconds: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_STOP_SECONDS",
            min=1,
            help="How long a stop waits for requests that have not arrived whole.",
        ),
    ] = 10

    drain_seconds: Annotated[
        int,
        Option(
            envvar="PLANTSTORE_DRAIN_SECONDS",
            min=0,
            max=3600,
            help="How long a stop goes on serving while /readyz says that it is not ready, "
            "so that a load balancer notices before connections are refused.",
        ),
    ] = 0

    tls_certificate: Annotated[
        Path | None,
        Option(
            envvar="PLANTSTORE_TLS_CERTIFICATE",
            exists=True,
            dir_okay=False,
            help="Serve HTTPS with this certificate, and those that lead to it, in PEM.",
        ),
    ] = None

    tls_key: Annotated[
        Path | None,
        Option(
            envvar="PLANTSTORE_TLS_KEY",
            exists=True,
            dir_okay=False,
            help="The private key of the certificate, in PEM, if it is in another file.",
        ),
    ] = None

    trusted_proxy: Annotated[
        list[str] | None,
        Option(
            envvar="PLANTSTORE_TRUSTED_PROXY",
            metavar="NETWORK",
            help="Address or network of a proxy in front, which may be given several times. From "
            "it, the client's address, the scheme and the id of a request are taken from "
            "Forwarded, X-Forwarded-For, X-Forwarded-Proto and X-Request-Id.",
        ),
    ] = None

    allow_origin: Annotated[
        list[str] | None,
        Option(
            envvar="PLANTSTORE_ALLOW_ORIGIN",
            metavar="ORIGIN",
            help="Origin of pages that may call the service from a browser, such as "
            "https://app.example; it may be given several times. * allows all.",
        ),
    ] = None

    access_log: Annotated[
        bool,
        Option(
            envvar="PLANTSTORE_ACCESS_LOG",
            help="Write a line for each request that is answered.",
        ),
    ] = False

    page: Annotated[
        bool,
        Option(
            envvar="PLANTSTORE_PAGE",
            help="Serve a page for the browser at / and the reference of the interface at /docs.",
        ),
    ] = True

    def __post_init__(self) -> None:
        """Hold settings against each other.

        Raises:
            UsageError: two of them contradict each other.

        """
        if self.incoming_bytes_max < 2 * self.body_bytes_max:
            raise UsageError(
                "--incoming-bytes-max must be at least twice --body-bytes-max, which is"
                f" {self.body_bytes_max}; got {self.incoming_bytes_max}"
            )
