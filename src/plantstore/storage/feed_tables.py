"""The feed of changes, as far as its SQL is the same in every engine.

Both engines have the tables `changes`, `feed` and `change_sets`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from plantstore.change_sets import SetChange, SetPage, SetPosition
from plantstore.changes import Change, InSet
from plantstore.errors import ErrorCode, FeedError
from plantstore.feed import CHANGES_MAX, ChangesPage, Recorded
from plantstore.listings import PAGE_BYTES_MAX, Page
from plantstore.plants import ID_MIN

# Executes a statement with named values, and returns its rows.
Execute: TypeAlias = Callable[[str, Mapping[str, object]], Sequence[Sequence[Any]]]


def before_new_numbers(now: str, resolution: int, random: str, greatest: str, count: str) -> str:
    """Return SQL for the number before those of new changes (`plantstore.feed`).

    Args:
        now: SQL for the time in the unit of the numbers.
        resolution: of this clock, in the same unit. Within it, two commits have the same time.
        random: SQL for a random integer from 0 to 2^20 - 1.
        greatest: the function that returns the greatest of its arguments.
        count: SQL for the number of the changes.

    """
    # The time may be asked twice: the number is never less than the last one.
    return (
        f"{greatest}({now}, last + CASE WHEN last < {now} + {resolution} THEN 0"
        f" ELSE {count} * {random} END)"
    )


# The columns of a change, and what parses a JSON array of arrays of them.
CHANGE_COLUMNS: Final = "number, change, at, id, name, tag"
RECORDS: Final = msgspec.json.Decoder(list[Recorded])

# The same for changes of a set.
SET_COLUMNS: Final = "number, change, id, name, tag, name_before, tag_before"
SET_CHANGES: Final = msgspec.json.Decoder(list[SetChange])


# Parses an aggregated array, as the engine returns it.
Parse: TypeAlias = Callable[[msgspec.json.Decoder[Any], Any], Any]


# The end of a statement that records a set with new changes. If the set is closed, the statement
# fails, because `closed` would be NULL.
ADD_TO_SET: Final = """
ON CONFLICT (name) DO UPDATE SET last_number = excluded.last_number,
    changes = change_sets.changes + excluded.changes, closed = nullif(change_sets.closed, true)
"""


def add_to_sets(changes: str) -> str:
    """Return SQL that records sets with new changes, after the row of `feed` is updated.

    Args:
        changes: SQL that follows FROM, for rows of `set_name` and `number`.

    """
    return f"""
INSERT INTO change_sets (first_number, last_number, name, changes, closed)
SELECT min(number), max(number), set_name, count(*), false FROM {changes} GROUP BY set_name
{ADD_TO_SET}
"""


# Changes that are looked at to find the old ones. It limits how long that takes after a clock was
# ahead: so many changes with a time in the future are skipped.
LOOKED_AT_MAX: Final = 100_000


def _require_on(days: int) -> None:
    if not days:
        message = "The feed of changes is off: the service runs with --changes-keep 0, or never ran"
        raise FeedError(ErrorCode.FEED_OFF, message)


class FeedTables:
    """The tables of the feed. The caller has begun a transaction for what is written.

    Args:
        begin: SQL for the number before that of a new change.
        seconds: SQL for the time in whole seconds since 1970.
        greatest: the function that returns the greatest of its arguments.
        value: returns the placeholder for a named value.
        array: returns SQL for a JSON array of arrays of some columns, aggregated from rows.
        elements: returns SQL for the rows of a JSON array of texts.
        parse: parses the value of `array`.

    """

    def __init__(
        self,
        *,
        begin: str,
        seconds: str,
        greatest: str,
        value: Callable[[str], str],
        array: Callable[[str], str],
        elements: Callable[[str], str],
        parse: Parse,
    ) -> None:
        self._parse = parse
        after, limit, through = map(value, ("after", "limit", "through"))
        # A feed that is switched on begins after a new number, unless there was never a plant.
        self._begin = f"""
UPDATE feed SET last = CASE
    WHEN last = 0 AND NOT EXISTS (SELECT 1 FROM plants) THEN 0 ELSE {begin} + 1
END
WHERE days = 0 RETURNING days
"""
        days = value("days")
        self._set_days = f"""
UPDATE feed SET days = {days}, kept_after = CASE days WHEN 0 THEN last ELSE kept_after END
WHERE days <> {days} RETURNING days
"""
        # One statement, and so one snapshot. If the page is refused, it reads no changes. The texts
        # are added up one by one only if they may be too large for a page.
        after = f"CAST({after} AS bigint)"
        self._read = f"""
WITH state AS MATERIALIZED (
    SELECT days, last, {after} = kept_after OR (
        {after} > kept_after AND EXISTS (SELECT 1 FROM changes WHERE number = {after})
    ) AS is_complete, (SELECT min(number) FROM changes WHERE number > kept_after) AS first
    FROM feed
), next AS MATERIALIZED (
    SELECT number, coalesce(octet_length(name), 0) + coalesce(octet_length(tag), 0) AS bytes
    FROM changes WHERE number > (SELECT {after} FROM state WHERE days > 0 AND is_complete)
    ORDER BY number LIMIT {limit} + 1
)
SELECT days, last, is_complete, first, (SELECT count(*) FROM next), (
    SELECT {array(CHANGE_COLUMNS)} FROM (
        SELECT {CHANGE_COLUMNS} FROM changes
        WHERE number > {after} AND number <= (
            SELECT CASE WHEN sum(bytes) <= {PAGE_BYTES_MAX} THEN max(number) ELSE (
                SELECT max(number) FROM (
                    SELECT number, row_number() OVER (ORDER BY number) AS place,
                        sum(bytes) OVER (ORDER BY number) AS bytes
                    FROM next
                ) AS summed WHERE place = 1 OR bytes <= {PAGE_BYTES_MAX}
            ) END FROM next
        )
        ORDER BY number LIMIT {limit}
    ) AS page
) FROM state
"""
        self._select_closed = f"""
SELECT name FROM change_sets, feed
WHERE name IN (SELECT value FROM {elements(value("names"))}) AND closed AND days > 0
"""
        name, after_id = value("name"), value("after_id")
        self._read_set = f"""
WITH next AS MATERIALIZED (
    SELECT id, number, octet_length(coalesce(changes.name, '')) + octet_length(coalesce(tag, ''))
        + octet_length(coalesce(name_before, '')) + octet_length(coalesce(tag_before, '')) AS bytes
    FROM change_sets, changes
    WHERE change_sets.name = {name} AND set_number = first_number
        AND id >= {after_id} AND (id > {after_id} OR number > {after})
    ORDER BY id, number LIMIT {limit}
), summed AS (
    SELECT number, row_number() OVER in_order AS place, sum(bytes) OVER in_order AS bytes
    FROM next WINDOW in_order AS (ORDER BY id, number)
)
SELECT days, changes, first_number > kept_after, (
    SELECT {array(SET_COLUMNS)} FROM (
        SELECT {SET_COLUMNS} FROM changes WHERE number IN (
            SELECT number FROM summed WHERE place = 1 OR bytes <= {PAGE_BYTES_MAX}
        ) ORDER BY id, number
    ) AS page
) FROM feed LEFT JOIN change_sets ON name = {name}
"""
        # Changes are trimmed from the oldest one, up to the first one to keep. So a clock that was
        # behind trims nothing. A change with a time in the future is as old as the next one
        # without: a clock that was ahead must keep nothing.
        dropped = f"""(
    SELECT CASE WHEN days = 0 OR kept > {CHANGES_MAX} THEN last ELSE kept_after END FROM feed
)"""
        self._find_old = f"""
SELECT max(number) FROM (
    SELECT number, sum(
        CASE WHEN number <= {dropped} OR at <= (SELECT {seconds} - days * 86400 FROM feed)
        THEN 0 ELSE 1 END
    ) OVER (ORDER BY number) AS kept_before
    FROM (
        SELECT number, at FROM (
            SELECT number, at FROM changes ORDER BY number LIMIT {LOOKED_AT_MAX}
        ) AS oldest WHERE number <= {dropped} OR at <= (SELECT {seconds})
        ORDER BY number LIMIT {limit}
    ) AS first
) AS summed WHERE kept_before = 0
"""
        self._delete = f"""
DELETE FROM changes WHERE number IN (
    SELECT number FROM changes WHERE number <= {through} ORDER BY number LIMIT {limit}
) RETURNING number
"""
        self._forget = f"""
UPDATE feed SET kept_after = {greatest}(kept_after, {through}), kept = kept - {value("deleted")}
RETURNING days
"""
        self._forget_sets = f"""
DELETE FROM change_sets WHERE first_number <= {through} AND last_number <= {through}
RETURNING first_number
"""

    def keep(self, execute: Execute, days: int) -> bool:
        """Set how long changes are kept. Return whether this is something new."""
        # A server that is read-only refuses an UPDATE even if it would change no row.
        if execute("SELECT days FROM feed", {})[0][0] == days:
            return False
        if days:
            execute(self._begin, {})
        return bool(execute(self._set_days, {"days": days}))

    def read(self, execute: Execute, after: int | None, limit: int) -> ChangesPage:
        """Return a page, as `PlantStore.read_changes` does."""
        values = {"after": after, "limit": limit}
        [(days, last, is_complete, first, following, text)] = execute(self._read, values)
        _require_on(days)
        if after is None:
            return Page([], last, is_last=True)
        if not is_complete:
            left = "no change is left" if first is None else f"the first left is {first}"
            raise FeedError(
                ErrorCode.CHANGES_GONE,
                f"Not all changes after {after} are kept, and {left}. Export the plants again, and"
                " follow from the Changes-After of the export",
                first,
            )
        changes: list[Recorded] = self._parse(RECORDS, text) if text else []
        end = changes[-1].number if changes else after
        return Page(changes, end, is_last=len(changes) == following)

    def read_set(
        self, execute: Execute, name: str, after: SetPosition | None, limit: int
    ) -> SetPage:
        """Return a page of a set, as `PlantStore.read_set` does."""
        id_, number = after or (ID_MIN, -1)
        values = {"name": name, "after_id": id_, "after": number, "limit": limit}
        [(days, total, is_complete, text)] = execute(self._read_set, values)
        _require_on(days)
        if total is None:
            raise FeedError(ErrorCode.NO_SUCH_SET, "No change set has this name")
        if not is_complete:
            message = "The first changes of the set are not kept any more"
            raise FeedError(ErrorCode.CHANGES_GONE, message)
        return SetPage(self._parse(SET_CHANGES, text) if text else [], total)

    def closed_of(self, execute: Execute, changes: Sequence[Change]) -> Collection[str]:
        """Return the names of the sets of a batch that are closed."""
        names = {change.set for change in changes if isinstance(change, InSet)}
        if not names:
            return ()
        values = {"names": msgspec.json.encode([*names]).decode()}
        return {name for [name] in execute(self._select_closed, values)}

    def last_number(self, execute: Execute) -> int | None:
        """Return the last number; None if the feed is off."""
        rows = execute("SELECT last FROM feed WHERE days > 0", {})
        return rows[0][0] if rows else None

    def trim(self, execute: Execute, changes_max: int) -> bool:
        """Delete some changes that are not kept any more. Return whether there may be others."""
        [(through,)] = execute(self._find_old, {"limit": changes_max})
        if through is None:
            return False
        deleted = execute(self._delete, {"through": through, "limit": changes_max})
        if deleted:  # otherwise another process has deleted them
            last = max(number for [number] in deleted)
            execute(self._forget, {"through": last, "deleted": len(deleted)})
            execute(self._forget_sets, {"through": last})
        return len(deleted) >= changes_max
