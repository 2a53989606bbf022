"""Operators look at recordings to be finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from attrs import frozen

from ..domain.finalization import FinalizationRules, FinalizeSnapshot
from ..domain.recording_finalize import RecordingFinalize
from .explain_finalization import explain_finalization
from .inspection import (
    Detail,
    ExplainedRow,
    ListedRow,
    NoSuchRow,
    ShownRow,
    listed_by_pages,
    trace_details,
)
from .ports.clock import Clock
from .ports.finalization_inspection import FinalizationInspection
from .ports.row_summary import RowState, RowSummary
from .row_states import finalization_state, finalization_summary


@frozen(kw_only=True)
class InspectFinalizations:
    """See `Inspection`. A row is named by its own id or by its recording's; no transaction spans what is read."""

    finalizations: FinalizationInspection
    clock: Clock
    rules: FinalizationRules

    async def listed(self, states: Sequence[RowState], *, limit: int) -> Sequence[ListedRow]:
        """See `Inspection.listed`."""
        as_of = self.clock.now()

        async def page(state: RowState, *, after: RowSummary | None, limit: int) -> Sequence[RowSummary]:
            return await self.finalizations.page(state, as_of=as_of, after=after, limit=limit)

        return await listed_by_pages(states, limit=limit, page=page)

    async def shown(self, id: UUID) -> ShownRow:
        """See `Inspection.shown`."""
        seen = await self._found(id)
        traces = await self.finalizations.traces(seen.entry.recording_id)
        return ShownRow(
            listed=_listed(seen.entry, self.clock.now()),
            details={**_of_recording(seen), "version": seen.entry.version},
            parts={
                "messages": [*map(trace_details, traces.messages)],
                "notices": [
                    {
                        "id": notice.id,
                        "kind": notice.kind,
                        "created_at": notice.created_at,
                        "dispatched_at": notice.dispatched_at,
                    }
                    for notice in traces.notices
                ],
            },
        )

    async def explained(self, id: UUID) -> ExplainedRow:
        """See `Inspection.explained`."""
        seen = await self._found(id)
        holder = await self.finalizations.holder(seen.entry.id)
        recording_holder = await self.finalizations.recording_holder(seen.entry.recording_id)
        as_of = self.clock.now()
        return ExplainedRow(
            listed=_listed(seen.entry, as_of),
            explanation=explain_finalization(
                seen, as_of=as_of, rules=self.rules, holder=holder, recording_holder=recording_holder
            ),
            details=_of_recording(seen),
        )

    async def _found(self, id: UUID) -> FinalizeSnapshot:
        seen = await self.finalizations.find(id)
        if seen is not None:
            return seen
        status = await self.finalizations.recording_status(id)
        if status is None:
            raise NoSuchRow("there is no finalization with this id, and no recording")
        raise NoSuchRow(f"the recording is {status.value} and was never opened for finalization")


def _of_recording(seen: FinalizeSnapshot) -> Mapping[str, Detail]:
    recording = seen.recording
    return {
        "recording_status": None if recording is None else recording.status.value,
        "session_ended_at": None if recording is None else recording.session_ended_at,
        "event_recorded": seen.event_recorded,
    }


def _listed(entry: RecordingFinalize, as_of: datetime) -> ListedRow:
    return ListedRow(state=finalization_state(entry, as_of=as_of), row=finalization_summary(entry))
