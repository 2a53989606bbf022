"""A call's recording: from being recorded to ``Available`` or ``Failed``, and never back."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from attrs import evolve, frozen

from .errors import IllegalTransition, InvariantViolation
from .evidence import Found, RecordingFormat

DURATION_TOLERANCE: Final = timedelta(minutes=1)
"""How much longer than the recording lasted a stated duration may be, and still be believed."""


class SessionKind(StrEnum):
    """What kind of session was recorded."""

    DIRECT = "Direct"
    CONFERENCE = "Conference"


class MediaType(StrEnum):
    """What was recorded."""

    AUDIO = "Audio"
    VIDEO = "Video"


class RecordingStatus(StrEnum):
    """State of a recording; ``Available`` and ``Failed`` are terminal."""

    PENDING = "Pending"
    RECORDING = "Recording"
    UPLOADING = "Uploading"
    AVAILABLE = "Available"
    FAILED = "Failed"


class FailureReason(StrEnum):
    """Why this package declares a recording lost; other writers may know more reasons."""

    TIMEOUT = "Timeout"


@frozen(kw_only=True)
class Media:
    """The binary as far as the database knows it (INV-REC-6: a reference and metadata, never the bytes).

    Raises `InvariantViolation` for an empty file or a negative duration.
    """

    file_id: UUID
    size_bytes: int
    duration_seconds: int
    format: RecordingFormat

    def __attrs_post_init__(self) -> None:
        if self.size_bytes <= 0:
            raise InvariantViolation("a recording's file has at least one byte")
        if self.duration_seconds < 0:
            raise InvariantViolation("a recording's duration is not negative")


@frozen(kw_only=True)
class RecordingAvailable:
    """A recording can be listened to from now on."""

    recording: CallRecording


@frozen(kw_only=True)
class RecordingFailed:
    """A recording is lost."""

    recording: CallRecording


@frozen(kw_only=True)
class CallRecording:
    """A row of ``messenger.call_recordings``.

    ``Available`` holds a file and the time it became so (INV-REC-5), else `InvariantViolation`. Every transition
    returns the next value with ``version`` raised by one; out of ``Available`` and ``Failed`` none leads.
    """

    id: UUID
    session_kind: SessionKind
    session_id: UUID
    session_ended_at: datetime | None
    chat_id: UUID | None
    deal_id: UUID | None
    tenant_id: UUID | None
    media_type: MediaType
    status: RecordingStatus
    trigger: str
    object_key: str
    media: Media | None
    failure_reason: str | None
    started_at: datetime
    ended_at: datetime | None
    available_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int

    def __attrs_post_init__(self) -> None:
        if self.status is RecordingStatus.AVAILABLE and (self.media is None or self.available_at is None):
            raise InvariantViolation("an available recording has a file and the time it became available")

    @property
    def terminal(self) -> bool:
        """Whether the recording is finished, one way or the other."""
        return self.status in (RecordingStatus.AVAILABLE, RecordingStatus.FAILED)

    def became_available(self, media: Media, *, now: datetime) -> tuple[CallRecording, RecordingAvailable]:
        """The file is there. A recording that is still ``Recording`` passes through ``Uploading`` on the way.

        Raises `IllegalTransition` for a recording that never started or is terminal.
        """
        self._ensure_in_progress()
        recording = evolve(
            self,
            status=RecordingStatus.AVAILABLE,
            media=media,
            ended_at=self.ended_at or self.session_ended_at or now,
            available_at=now,
            updated_at=now,
            version=self.version + 1,
        )
        return recording, RecordingAvailable(recording=recording)

    def was_lost(self, reason: FailureReason, *, now: datetime) -> tuple[CallRecording, RecordingFailed]:
        """Storage has said that there is no file. Raises like `became_available`."""
        self._ensure_in_progress()
        recording = evolve(
            self,
            status=RecordingStatus.FAILED,
            failure_reason=reason.value,
            updated_at=now,
            version=self.version + 1,
        )
        return recording, RecordingFailed(recording=recording)

    def media_from(self, found: Found) -> Media:
        """What is adopted of the object found.

        Its duration is the first that can be true of: its metadata, its media header, the recording's own times.
        """
        return Media(
            file_id=found.file_id,
            size_bytes=found.size_bytes,
            duration_seconds=round(self._believable_duration(found).total_seconds()),
            format=found.format,
        )

    def _believable_duration(self, found: Found) -> timedelta:
        ended_at = self.ended_at or self.session_ended_at
        lasted = max(timedelta(0), ended_at - self.started_at) if ended_at else None
        for duration in (found.stated_duration, found.measured_duration):
            if duration is None or duration < timedelta(0):
                continue
            if lasted is None or duration <= lasted + DURATION_TOLERANCE:
                return duration
        return lasted or timedelta(0)

    def _ensure_in_progress(self) -> None:
        if self.status not in (RecordingStatus.RECORDING, RecordingStatus.UPLOADING):
            raise IllegalTransition(f"a recording that is {self.status.value} cannot be finished")
