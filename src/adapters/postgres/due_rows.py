"""Reading due rows page by page, where some may be broken: those are named in the log, and left alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar
from uuid import UUID

import structlog
from attrs import frozen
from structlog.typing import FilteringBoundLogger

from ...application.cursor import Cursor
from .fetching import Row, UnreadableRow

Snapshot = TypeVar("Snapshot")

BROKEN: Final = (ValueError, TypeError, AttributeError)
"""What the domain says to a word or a number that it does not know, and to nothing where there must be something."""

_log: FilteringBoundLogger = structlog.get_logger("messenger_jobs")


@frozen
class Place:
    """Where a row stands in the order of schedule and id, as the driver or as the server writes it."""

    next_attempt_at: object
    id: object


BEFORE_ALL: Final = Place("-infinity", "00000000-0000-0000-0000-000000000000")


async def filled_batch(
    read: Callable[[Place, int], Awaitable[Sequence[tuple[Place, Snapshot | None]]]],
    *,
    after: Cursor | None,
    limit: int,
) -> Sequence[Snapshot]:
    """``limit`` snapshots, or all that there are: a short batch means the end, however many rows are left alone.

    ``read`` reads at most so many rows behind a place, in their order; a row that is left alone has no snapshot.
    """
    found: list[Snapshot] = []
    place = BEFORE_ALL if after is None else Place(after.next_attempt_at, after.id)
    while (wanted := limit - len(found)) > 0:
        rows = await read(place, wanted)
        found += [snapshot for _, snapshot in rows if snapshot is not None]
        if len(rows) < wanted:
            break
        place, _ = rows[-1]
    return found


def place_in(row: Row | UnreadableRow, column: int) -> Place:
    """The place of a row whose first column is its id, and whose schedule stands in ``column``."""
    columns = row.columns if isinstance(row, UnreadableRow) else row
    return Place(columns[column], columns[0])


def id_of(row: Row | UnreadableRow) -> UUID:
    """The first column."""
    return UUID(row.id) if isinstance(row, UnreadableRow) else row[0]


def tell_unreadable(table: str, row: Row | UnreadableRow) -> None:
    """Name a row that is left alone; nothing of what it holds."""
    _log.error("row unreadable", table=f"messenger.{table}", id=str(id_of(row)))
