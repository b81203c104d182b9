"""One process of the service: its telemetry, its store, and its application."""

from collections.abc import Callable
from pathlib import Path

import uvicorn

from plantstore.api.exchange import ASGIApp
from plantstore.cli.opening import open_named
from plantstore.cli.wiring import wire
from plantstore.observe import Observer, tell_all
from plantstore.server.workers import server_config
from plantstore.settings import Settings
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import PlantWrites, Store
from plantstore.telemetry.log import LogQueue, log_answers, log_events
from plantstore.telemetry.metrics import Metrics


class Telemetry:
    """The log and the metrics of a process.

    Args:
        log: of the process.
        settings: of the service.
        folder: where several processes share their counts; None for one process.

    """

    def __init__(self, log: LogQueue, settings: Settings, folder: Path | None = None) -> None:
        self.metrics = Metrics(folder)
        self.metrics.watch_log(lambda: log.dropped)
        answers: list[Observer] = [self.metrics.observe]
        if settings.access_log:
            answers.append(log_answers())
        self.observe = tell_all(log_events(), self.metrics.observe, answers=answers)


def build_app(
    settings: Settings, store: Store, telemetry: Telemetry, writes: PlantWrites | None = None
) -> ASGIApp:
    """Wire one process, with the store that it has opened, and what writes for it."""
    wired = wire(
        settings,
        store,
        observe=telemetry.observe,
        metrics=telemetry.metrics.renderings,
        writes=writes,
    )
    telemetry.metrics.watch_queue("changes", lambda: wired.writer.waiting)
    telemetry.metrics.watch_queue("reads", lambda: wired.reader.waiting)
    return wired.app


def uvicorn_config(app_factory: Callable[[], ASGIApp], settings: Settings) -> uvicorn.Config:
    """Return uvicorn's configuration for these settings."""
    return server_config(
        app_factory,
        workers=settings.workers,
        stop_seconds=settings.stop_seconds,
        tls_certificate=settings.tls_certificate,
        tls_key=settings.tls_key,
        trusted_proxies=settings.trusted_proxy or [],
    )


def open_store_of(settings: Settings, telemetry: Telemetry) -> Store:
    """Open the store of the settings."""
    return open_named(
        settings.database,
        SchemaPolicy.MIGRATE if settings.migrate else SchemaPolicy.REQUIRE,
        standbys_min=settings.standbys_min,
        observe=telemetry.observe,
    )
