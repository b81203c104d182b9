"""The service without what it tells: no metrics, no log, no record of each answer."""

import sys

import plantstore.api.app
from noop import serve
from plantstore.observe import Event, Observer
from plantstore.reader import GroupRead
from plantstore.settings import Settings
from plantstore.store import Store
from plantstore.writer import GroupCommit


class _NoAnswers:
    """Stands where each answer would be told."""

    def __init__(self, observe: Observer) -> None:
        pass

    async def process_startup(self, scope: object, event: object) -> None:
        pass


def _ignore(_event: Event) -> None:
    pass


def main(database: str, port: str) -> None:
    settings = Settings(database=f"sqlite:///{database}", port=int(port))

    def make_writer(store: Store) -> GroupCommit:
        return GroupCommit(
            store,
            queue_plants_max=settings.queue_plants_max,
            queue_characters_max=settings.queue_characters_max,
            batch_plants_max=settings.batch_plants_max,
            observe=_ignore,
        )

    plantstore.api.app.__dict__["Answers"] = _NoAnswers
    serve(settings, make_writer, GroupRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
