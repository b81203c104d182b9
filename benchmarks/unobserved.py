"""The service without observers: no metrics and no log."""

import sys

from noop import serve
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.settings import Settings


def main(database: str, port: str) -> None:
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    serve(settings, GroupCommit, GroupRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
