"""The happy path: the recorder says that its file is uploaded."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from attrs import frozen

from ..domain.call_recording import CallRecording, Media, RecordingStatus
from ..domain.evidence import RecordingFormat
from ..domain.recording_finalize import FinalizeStatus, RecordingFinalize
from .announce_recording import Announcer
from .ports.clock import Clock
from .ports.errors import RowRolledBack
from .ports.finalization import FinalizationChange, FinalizationStore


class UploadResult(StrEnum):
    """What a call of `FinalizeUploadedRecording` came to."""

    AVAILABLE = "available"
    """This call made the recording available."""
    ALREADY_AVAILABLE = "already_available"
    """It was available before: repeated or late, nothing was changed."""
    ALREADY_FAILED = "already_failed"
    """It had been declared lost before: too late, nothing was changed."""
    NOT_STARTED = "not_started"
    """The recording has not started, so it cannot have been uploaded."""
    UNKNOWN_RECORDING = "unknown_recording"
    """There is no such recording."""


@frozen(kw_only=True)
class FinalizeUploadedRecording:
    """Makes a recording available: recording, event, realtime hint and finalize row in one transaction.

    Version-guarded and idempotent: of several calls, and of a call racing the retry job, one changes something and
    the others say so. Joined to a host's transaction, the host's commit decides. Raises `RowRolledBack` or
    `DatabaseUnavailable` when nothing was changed, `InvariantViolation` for an empty file or a negative duration.
    """

    store: FinalizationStore
    announcer: Announcer
    clock: Clock

    async def __call__(
        self,
        recording_id: UUID,
        *,
        file_id: UUID,
        size_bytes: int,
        duration_seconds: int,
        format: RecordingFormat,
        correlation_id: UUID,
    ) -> UploadResult:
        """Finish the recording with the uploaded file. ``correlation_id`` goes into the event's headers."""
        media = Media(
            file_id=file_id, size_bytes=size_bytes, duration_seconds=duration_seconds, format=format
        )
        async with self.store.begin() as work:
            recording = await work.lock(recording_id)
            unchanged = _reason_to_leave_alone(recording)
            if recording is None or unchanged is not None:
                return unchanged or UploadResult.UNKNOWN_RECORDING
            now = self.clock.now()
            available, event = recording.became_available(media, now=now)
            change = FinalizationChange(
                entry=_done(await work.entry(recording_id), now=now),
                recording=available,
                message=self.announcer.event(event, correlation_id),
                notice=self.announcer.notice(event),
            )
            if not await work.write(change):
                raise RowRolledBack("RECORDING_CHANGED", "the recording changed while it was locked")
            await work.commit()
        return UploadResult.AVAILABLE


def _reason_to_leave_alone(recording: CallRecording | None) -> UploadResult | None:
    if recording is None:
        return UploadResult.UNKNOWN_RECORDING
    match recording.status:
        case RecordingStatus.AVAILABLE:
            return UploadResult.ALREADY_AVAILABLE
        case RecordingStatus.FAILED:
            return UploadResult.ALREADY_FAILED
        case RecordingStatus.PENDING:
            return UploadResult.NOT_STARTED
        case RecordingStatus.RECORDING | RecordingStatus.UPLOADING:
            return None


def _done(entry: RecordingFinalize | None, *, now: datetime) -> RecordingFinalize | None:
    """A quarantined row is closed as well: the recording is finished, there is nothing left for an operator."""
    if entry is None or entry.status is FinalizeStatus.DONE:
        return None
    return entry.done(now=now)
