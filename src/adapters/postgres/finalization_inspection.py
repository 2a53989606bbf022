"""Recordings to be finished in PostgreSQL, as operators look at them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from ...application.integration_events import call_recording_available_key
from ...application.ports.finalization_inspection import RecordingTraces
from ...application.ports.row_holder import RowHolder
from ...application.ports.row_summary import RowState, RowSummary
from ...application.ports.traces import NoticeTrace
from ...domain.call_recording import RecordingStatus
from ...domain.finalization import FinalizeSnapshot
from . import finalization_inspection_statements as sql
from .connections import Connections
from .fetching import Row, rows_from
from .finalization_rows import snapshot_from
from .provision_rows import BEGINNING_OF_TIME
from .row_holders import FINALIZATIONS, RECORDINGS, row_holder
from .trace_rows import message_trace


@frozen
class PostgresFinalizationInspection:
    """See `FinalizationInspection`."""

    _connections: Connections

    async def find(self, id: UUID) -> FinalizeSnapshot | None:
        """See `FinalizationInspection.find`."""
        rows = await rows_from(self._connections, sql.FIND, {"id": id})
        return snapshot_from(rows[0]) if rows else None

    async def recording_status(self, recording_id: UUID) -> RecordingStatus | None:
        """See `FinalizationInspection.recording_status`."""
        rows = await rows_from(self._connections, sql.RECORDING_STATUS, {"recording_id": recording_id})
        return RecordingStatus(rows[0][0]) if rows else None

    async def page(
        self, state: RowState, *, as_of: datetime, after: RowSummary | None, limit: int
    ) -> Sequence[RowSummary]:
        """See `FinalizationInspection.page`."""
        parameters = {
            "as_of": as_of,
            "after_at": BEGINNING_OF_TIME if after is None else after.next_attempt_at,
            "after_created_at": BEGINNING_OF_TIME if after is None else after.created_at,
            "after_id": UUID(int=0) if after is None else after.id,
            "limit": limit,
        }
        return [
            _summary(row)
            for row in await rows_from(self._connections, sql.PAGE[state], parameters, prepare=False)
        ]

    async def traces(self, recording_id: UUID) -> RecordingTraces:
        """See `FinalizationInspection.traces`."""
        key = call_recording_available_key(recording_id)
        messages = await rows_from(self._connections, sql.MESSAGES, {"dedupe_key": key})
        notices = await rows_from(self._connections, sql.NOTICES, {"recording_id": recording_id})
        return RecordingTraces(
            messages=[message_trace(row) for row in messages],
            notices=[
                NoticeTrace(id=id_, kind=kind, created_at=created_at, dispatched_at=dispatched_at)
                for id_, kind, created_at, dispatched_at in notices
            ],
        )

    async def holder(self, entry_id: UUID) -> RowHolder | None:
        """See `FinalizationInspection.holder`."""
        return await row_holder(self._connections, FINALIZATIONS, entry_id)

    async def recording_holder(self, recording_id: UUID) -> RowHolder | None:
        """See `FinalizationInspection.recording_holder`."""
        return await row_holder(self._connections, RECORDINGS, recording_id)


def _summary(row: Row) -> RowSummary:
    id_, recording_id, _, session_id, status, attempts, next_attempt_at, last_error = row[:8]
    return RowSummary(
        id=id_,
        subject={"recording_id": recording_id, "session_id": session_id},
        status=status,
        attempts=attempts,
        next_attempt_at=next_attempt_at,
        last_error=last_error,
        created_at=row[8],
        updated_at=row[9],
    )
