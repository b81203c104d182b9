"""Every setting, once: its type, default, environment variable, bounds, and reason.

The command line makes its options from here, and docs/settings.md is held to it.
A setting is an option, or a `PLANTSTORE_` variable, or its default, in that order.
"""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from typer import Option

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
            help="Reads that may wait, in each worker; more are answered with 503. "
            "A thousand of the largest pages wait for about a second.",
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
