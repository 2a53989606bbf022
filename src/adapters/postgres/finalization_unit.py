"""One step of a finalization within a transaction."""

from __future__ import annotations

from uuid import UUID

from attrs import evolve

from ...application.ports.finalization import FinalizationChange
from ...domain.call_recording import CallRecording
from ...domain.recording_finalize import RecordingFinalize
from . import finalization_statements as sql
from .finalization_rows import entry_from, entry_parameters, recording_from, writing
from .unit_of_work import PostgresUnitOfWork


class PostgresFinalizationUnit(PostgresUnitOfWork):
    """See `FinalizationUnit`."""

    async def lock(self, recording_id: UUID) -> CallRecording | None:
        """See `FinalizationUnit.lock`."""
        row = await self._row(sql.LOCK_RECORDING, {"recording_id": recording_id})
        return None if row is None else recording_from(row)

    async def entry(self, recording_id: UUID) -> RecordingFinalize | None:
        """See `FinalizationUnit.entry`."""
        row = await self._row(sql.LOCK_ENTRY_OF_RECORDING, {"recording_id": recording_id})
        return None if row is None else entry_from(row)

    async def lock_entry(self, entry_id: UUID) -> RecordingFinalize | None:
        """See `FinalizationUnit.lock_entry`."""
        row = await self._row(sql.LOCK_ENTRY, {"entry_id": entry_id})
        return None if row is None else entry_from(row)

    async def open(self, entry: RecordingFinalize) -> bool:
        """See `FinalizationUnit.open`. Waits for a concurrent transaction that is about to open the same one."""
        return await self._changes_a_row(sql.OPEN, entry_parameters(entry))

    async def write(self, change: FinalizationChange) -> bool:
        """See `FinalizationUnit.write`. With a host's own outbox, what tells something takes three statements."""
        if change.message is None or self._own_outbox is None:
            return await self._changes_a_row(*writing(change))
        if not await self._changes_a_row(*writing(evolve(change, message=None, notice=None))):
            return False
        # Clients are not told again of what an earlier message has told already.
        if await self.outbox.add(change.message) and change.notice is not None:
            await self._changes_a_row(*writing(FinalizationChange(notice=change.notice)))
        return True
