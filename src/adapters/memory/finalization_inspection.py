"""Recordings to be finished in the memory database, as operators look at them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from uuid import UUID

from attrs import field, frozen

from ...application.integration_events import call_recording_available_key
from ...application.ports.finalization_inspection import RecordingTraces
from ...application.ports.row_holder import RowHolder
from ...application.ports.row_summary import RowState, RowSummary
from ...application.ports.traces import NoticeTrace
from ...application.row_states import finalization_state, finalization_summary
from ...domain.call_recording import RecordingStatus
from ...domain.finalization import FinalizeSnapshot
from .clock import EPOCH
from .database import Transaction
from .schema import MessengerDatabase
from .switch import Switch, let_others_run
from .table import Row, Table
from .traces import message_trace


@frozen
class MemoryFinalizationInspection:
    """See `FinalizationInspection`."""

    _database: MessengerDatabase
    _switch: Switch = field(default=let_others_run, kw_only=True, alias="switch")

    async def find(self, id: UUID) -> FinalizeSnapshot | None:
        """See `FinalizationInspection.find`."""
        database = self._database
        async with self._reading("find") as transaction:
            entry = transaction.get(database.finalizations, id) or transaction.find(
                database.finalizations, database.finalization_of_recording, id
            )
            if entry is None:
                return None
            key = call_recording_available_key(entry.recording_id)
            message = transaction.find(database.outbox, database.outbox_of_dedupe_key, key)
            return FinalizeSnapshot(
                entry=entry,
                recording=transaction.get(database.recordings, entry.recording_id),
                event_recorded=message is not None,
            )

    async def recording_status(self, recording_id: UUID) -> RecordingStatus | None:
        """See `FinalizationInspection.recording_status`."""
        async with self._reading("recording status") as transaction:
            recording = transaction.get(self._database.recordings, recording_id)
            return None if recording is None else recording.status

    async def page(
        self, state: RowState, *, as_of: datetime, after: RowSummary | None, limit: int
    ) -> Sequence[RowSummary]:
        """See `FinalizationInspection.page`."""
        async with self._reading("page") as transaction:
            entries = transaction.rows(self._database.finalizations)
        rows = [
            finalization_summary(entry)
            for entry in entries
            if finalization_state(entry, as_of=as_of) is state
        ]
        behind = [row for row in rows if after is None or _place(state, row) > _place(state, after)]
        return sorted(behind, key=lambda row: _place(state, row))[:limit]

    async def traces(self, recording_id: UUID) -> RecordingTraces:
        """See `FinalizationInspection.traces`."""
        key = call_recording_available_key(recording_id)
        async with self._reading("traces") as transaction:
            row = transaction.find(self._database.outbox, self._database.outbox_of_dedupe_key, key)
            notices = transaction.rows(self._database.realtime_outbox)
        own = [notice for notice in notices if notice.reference_id == recording_id]
        return RecordingTraces(
            messages=[] if row is None else [message_trace(row)],
            notices=[
                NoticeTrace(
                    id=notice.id, kind=notice.kind.value, created_at=notice.created_at, dispatched_at=None
                )
                for notice in sorted(own, key=lambda notice: (notice.created_at, notice.id))
            ],
        )

    async def holder(self, entry_id: UUID) -> RowHolder | None:
        """See `FinalizationInspection.holder`. Transactions here have no names."""
        return await self._holder(self._database.finalizations, entry_id)

    async def recording_holder(self, recording_id: UUID) -> RowHolder | None:
        """See `FinalizationInspection.recording_holder`."""
        return await self._holder(self._database.recordings, recording_id)

    async def _holder(self, table: Table[Row], id: UUID) -> RowHolder | None:
        async with self._reading("holder") as transaction:
            if transaction.get(table, id) is None:
                return None
            return RowHolder() if transaction.try_lock(table, id) is None else None

    @asynccontextmanager
    async def _reading(self, operation: str) -> AsyncGenerator[Transaction]:
        async with self._database.statement(operation, self._switch) as transaction:
            yield transaction


def _place(state: RowState, row: RowSummary) -> tuple[datetime, UUID]:
    match state:
        case RowState.FINISHED:
            return EPOCH, row.id
        case RowState.POISON:
            return row.created_at, row.id
        case RowState.DUE | RowState.WAITING:
            return row.next_attempt_at, row.id
