"""Recordings to be finished, in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final
from uuid import UUID

from attrs import field, frozen

from ...application.cursor import Cursor
from ...application.ports.finalization import FinalizationBacklog, FinalizationChange
from ...domain.finalization import FinalizeSnapshot
from . import finalization_statements as sql
from .connections import Connections
from .fetching import rows_from
from .finalization_rows import snapshot_from, writing
from .finalization_unit import PostgresFinalizationUnit
from .provision_rows import BEGINNING_OF_TIME
from .unit_of_work import OutboxOn

_BEFORE_ALL: Final = Cursor(next_attempt_at=BEGINNING_OF_TIME, id=UUID(int=0))


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
        cursor = after or _BEFORE_ALL
        parameters = {
            "as_of": as_of,
            "after_at": cursor.next_attempt_at,
            "after_id": cursor.id,
            "limit": limit,
        }
        # Never prepared: the plan is made for the very limit and time, which costs less than a bad one.
        return [
            snapshot_from(row)
            for row in await rows_from(self._connections, sql.CANDIDATES, parameters, prepare=False)
        ]

    async def snapshot(self, entry_id: UUID) -> FinalizeSnapshot | None:
        """See `FinalizationStore.snapshot`."""
        rows = await rows_from(self._connections, sql.SNAPSHOT, {"entry_id": entry_id})
        return snapshot_from(rows[0]) if rows else None

    async def write(self, change: FinalizationChange) -> bool:
        """See `FinalizationStore.write`."""
        if change.message is None or self._own_outbox is None:
            return await rows_from(self._connections, *writing(change), prepare=True) == [(True,)]
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
