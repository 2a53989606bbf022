"""What the outside is told of a recording, put together with the rows that change."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from attrs import frozen

from ..domain.call_recording import CallRecording, RecordingAvailable, RecordingFailed
from ..domain.finalization import Adopt, Republish, TimeOut, Verdict
from .integration_events import call_recording_available
from .ports.clock import Clock
from .ports.entropy import NewId
from .ports.finalization import FinalizationChange
from .ports.outbox import OutboxMessage
from .ports.realtime_outbox import RealtimeKind, RealtimeNotice
from .ports.tracing import UNTRACED, Tracing


@frozen(kw_only=True)
class Announcer:
    """Turns a verdict into everything that is written for it."""

    clock: Clock
    new_id: NewId
    tracing: Tracing = UNTRACED

    def change(self, verdict: Verdict, correlation_id: UUID) -> FinalizationChange:
        """The rows that ``verdict`` changes, with the event and the hint that belong to them."""
        match verdict:
            case Adopt():
                return FinalizationChange(
                    entry=verdict.entry,
                    recording=verdict.recording,
                    message=self.event(verdict.event, correlation_id),
                    notice=self.notice(verdict.event),
                )
            case Republish():
                return FinalizationChange(
                    entry=verdict.entry,
                    message=self.event(verdict.event, correlation_id),
                    notice=self.notice(verdict.event),
                )
            case TimeOut():
                return FinalizationChange(
                    entry=verdict.entry, recording=verdict.recording, notice=self.notice(verdict.event)
                )
            case _:
                return FinalizationChange(entry=verdict.entry)

    def event(self, available: RecordingAvailable, correlation_id: UUID) -> OutboxMessage:
        """The integration event."""
        return call_recording_available(
            available,
            event_id=self.new_id(),
            correlation_id=correlation_id,
            trace=self.tracing.headers(),
        )

    def notice(self, event: RecordingAvailable | RecordingFailed) -> RealtimeNotice:
        """The hint for connected clients."""
        available = isinstance(event, RecordingAvailable)
        return self._notice(
            RealtimeKind.RECORDING_AVAILABLE if available else RealtimeKind.RECORDING_FAILED,
            event.recording,
            self.clock.now(),
        )

    def _notice(self, kind: RealtimeKind, recording: CallRecording, now: datetime) -> RealtimeNotice:
        return RealtimeNotice(
            id=self.new_id(),
            kind=kind,
            session_kind=recording.session_kind,
            session_id=recording.session_id,
            reference_id=recording.id,
            created_at=now,
        )
