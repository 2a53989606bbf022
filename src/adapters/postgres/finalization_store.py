"""Recordings to be finished, in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import field, frozen

from ...application.cursor import Cursor
from ...application.ports.finalization import FinalizationBacklog, FinalizationChange
from ...domain.finalization import FinalizeSnapshot
from . import finalization_statements as sql
from .connections import Connections
from .due_rows import BROKEN, Place, filled_batch, place_in, tell_unreadable
from .fetching import Row, UnreadableRow, changes_a_row, rows_from, rows_one_by_one
from .finalization_rows import snapshot_from, writing
from .finalization_unit import PostgresFinalizationUnit
from .unit_of_work import OutboxOn

_SCHEDULE: Final = 6
"""The column ``next_attempt_at`` of ``ENTRY_COLUMNS``."""


@frozen
class PostgresFinalizationStore:
    """See `FinalizationStore`. A batch costs one statement, and so does every step, which is its transaction.

    ``outbox`` is a host's own outbox, which is written in the same transactions. Whether an announcement is in it is
    asked only by adding it: a recording that was announced and not closed is announced again, to no effect.
    """

    _connections: Connections
    _own_outbox: OutboxOn | None = field(default=None, kw_only=True, alias="outbox")

    async def candidates(
        self, *, as_of: datetime, after: Cursor | None, limit: int
    ) -> Sequence[FinalizeSnapshot]:
        """See `FinalizationStore.candidates`."""

        async def read(place: Place, wanted: int) -> Sequence[tuple[Place, FinalizeSnapshot | None]]:
            parameters = {
                "as_of": as_of,
                "after_at": place.next_attempt_at,
                "after_id": place.id,
                "limit": wanted,
            }
            async with self._connections.statement() as connection:
                # Never prepared: the plan is made for the very limit and time, which costs less than a bad one.
                rows = await rows_one_by_one(connection, sql.CANDIDATES, parameters, prepare=False)
            return [(place_in(row, _SCHEDULE), _snapshot(row)) for row in rows]

        return await filled_batch(read, after=after, limit=limit)

    async def snapshot(self, entry_id: UUID) -> FinalizeSnapshot | None:
        """See `FinalizationStore.snapshot`."""
        rows = await rows_from(self._connections, sql.SNAPSHOT, {"entry_id": entry_id})
        return snapshot_from(rows[0]) if rows else None

    async def write(self, change: FinalizationChange) -> bool:
        """See `FinalizationStore.write`."""
        if change.message is None or self._own_outbox is None:
            return await changes_a_row(self._connections, *writing(change))
        async with self.begin() as work:
            written = await work.write(change)
            if written:
                await work.commit()
        return written

    @asynccontextmanager
    async def begin(self) -> AsyncGenerator[PostgresFinalizationUnit]:
        """See `FinalizationStore.begin`."""
        async with self._connections.transaction() as transaction:
            yield PostgresFinalizationUnit(transaction, self._own_outbox)

    async def backlog(self, *, as_of: datetime) -> FinalizationBacklog:
        """See `FinalizationStore.backlog`."""
        ((pending, due, quarantined, oldest),) = await rows_from(
            self._connections, sql.BACKLOG, {"as_of": as_of}
        )
        return FinalizationBacklog(
            pending=pending, due=due, quarantined=quarantined, oldest_created_at=oldest
        )

    async def quarantined_ids(self, *, error: str | None = None) -> Collection[UUID]:
        """See `FinalizationStore.quarantined_ids`. Oldest first."""
        return [id_ for (id_,) in await rows_from(self._connections, sql.QUARANTINED_IDS, {"error": error})]


def _snapshot(row: Row | UnreadableRow) -> FinalizeSnapshot | None:
    """None for a row that is broken, which is told."""
    if not isinstance(row, UnreadableRow):
        with suppress(*BROKEN):
            return snapshot_from(row)
    tell_unreadable("recording_finalize_attempts", row)
    return None
