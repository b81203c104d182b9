"""The command `plantstore` without the index of words: changes leave the index as it is.

It shows what the index costs. A database that it wrote must not be used by the service.
"""

import sys

import plantstore.storage.sqlite.plants
from plantstore.cli import main


def index_nothing(*_arguments: object) -> None:
    """Take the place of the functions that index words."""


if __name__ == "__main__":
    for function in ("index_new_plants", "index_words"):
        plantstore.storage.sqlite.plants.__dict__[function] = index_nothing
    sys.exit(main())
