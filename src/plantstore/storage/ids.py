"""The table of handed-out ids, which has one row. Its statement is the same in every engine."""

from collections.abc import Sequence
from typing import Any

from plantstore.errors import OperationError
from plantstore.plants import ID_MAX


def hand_out_query(placeholder: str, greatest: str) -> str:
    """Return the statement that hands out ids, and returns the last one.

    It returns no row if too few ids are left. `hand_out_values` returns its values.

    Args:
        placeholder: for a value.
        greatest: the function that returns the greatest of its arguments.

    """
    return f"""
INSERT INTO handed_out_ids (only_row, last_id)
SELECT 1, stored.id + {placeholder}
FROM (SELECT {greatest}(0, coalesce((SELECT max(id) FROM plants), 0)) AS id) AS stored
WHERE stored.id <= {placeholder}
ON CONFLICT (only_row) DO UPDATE
SET last_id = {greatest}(handed_out_ids.last_id + {placeholder}, excluded.last_id)
WHERE handed_out_ids.last_id <= {placeholder}
RETURNING last_id
"""


def hand_out_values(count: int) -> tuple[int, int, int, int]:
    """Return the values for `hand_out_query`."""
    return count, ID_MAX - count, count, ID_MAX - count


def ids_through(rows: Sequence[Sequence[Any]], count: int) -> range:
    """Return the ids that were handed out, from the rows of `hand_out_query`.

    Raises:
        OperationError: there is no row.

    """
    if not rows:
        raise ids_exhausted(count)
    [(last_id,)] = rows
    return range(last_id - count + 1, last_id + 1)


def ids_exhausted(count: int) -> OperationError:
    """Return the error for more ids than are left."""
    return OperationError(
        f"Fewer ids than {count} are left above the greatest one in use; choose free ids yourself"
    )
