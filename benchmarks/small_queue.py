"""The service with a short queue of changes, so that few clients overload it."""

import sys
from functools import partial

from noop import serve
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.settings import Settings

QUEUE = 500


def main(database: str, port: str) -> None:
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    serve(settings, partial(GroupCommit, waiting_max=QUEUE), GroupRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
