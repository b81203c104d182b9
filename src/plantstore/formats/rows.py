"""Rows of files of plants."""

from typing import NamedTuple, TypeAlias

from plantstore.errors import RequestError
from plantstore.plants import NewPlant


class Reject(NamedTuple):
    """A row that is no plant: why, and its text, which may be cut short."""

    error: RequestError
    text: str


# The number of the line that a row begins on, from 1, and what it holds.
Row: TypeAlias = tuple[int, NewPlant | Reject]
