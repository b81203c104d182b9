"""The command `plantstore` without the index of words and tags: changes leave the index as it is.

It shows what the index costs. A database that it wrote must not be used by the service.
"""

import sys

import plantstore.storage.sqlite.plants
from plantstore.cli import main


def index_nothing(*_arguments: object) -> None:
    """Take the place of the function that indexes words."""


if __name__ == "__main__":
    plantstore.storage.sqlite.plants.__dict__["index_words"] = index_nothing
    sys.exit(main())
