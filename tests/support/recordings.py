"""Recordings and their finalizations for tests: valid as they come, with only what matters spelled out."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from attrs import evolve
from messenger_jobs.domain.backoff import BackoffPolicy
from messenger_jobs.domain.call_recording import (
    CallRecording,
    Media,
    MediaType,
    RecordingStatus,
    SessionKind,
)
from messenger_jobs.domain.evidence import Found, RecordingFormat
from messenger_jobs.domain.finalization import FinalizationRules, FinalizeSnapshot
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.support.builders import NOW, some_id

RECORDING_ID: Final = some_id(31)
ENTRY_ID: Final = some_id(32)
SESSION_ID: Final = some_id(33)
FILE_ID: Final = some_id(34)

SLA: Final = timedelta(minutes=30)
STARTED_AT: Final = NOW - timedelta(hours=2)
ENDED_AT: Final = NOW - timedelta(hours=1)
LASTED: Final = ENDED_AT - STARTED_AT

FINALIZATION_RULES: Final = FinalizationRules(
    max_attempts=8,
    finalize_sla_timeout=SLA,
    poll=timedelta(seconds=60),
    backoff=BackoffPolicy(base=timedelta(minutes=1), factor=2.0, cap=timedelta(minutes=15), jitter=0.2),
)

MEDIA: Final = Media(file_id=FILE_ID, size_bytes=4_096, duration_seconds=3_600, format=RecordingFormat.WEBM)


def a_recording(
    *, id: UUID = RECORDING_ID, status: RecordingStatus = RecordingStatus.UPLOADING, **changes: Any
) -> CallRecording:
    """A recording of a session that ended an hour ago, whose upload was never confirmed."""
    available, failed = status is RecordingStatus.AVAILABLE, status is RecordingStatus.FAILED
    recording = CallRecording(
        id=id,
        session_kind=SessionKind.DIRECT,
        session_id=SESSION_ID,
        session_ended_at=ENDED_AT,
        chat_id=some_id(35),
        deal_id=some_id(36),
        tenant_id=None,
        media_type=MediaType.VIDEO,
        status=status,
        trigger="Manual",
        object_key=f"calls/{id}.webm",
        media=MEDIA if available else None,
        failure_reason="Timeout" if failed else None,
        started_at=STARTED_AT,
        ended_at=ENDED_AT,
        available_at=NOW - timedelta(minutes=10) if available else None,
        created_at=STARTED_AT,
        updated_at=ENDED_AT,
        version=3,
    )
    return evolve(recording, **changes)


def an_entry(
    *,
    id: UUID = ENTRY_ID,
    recording_id: UUID = RECORDING_ID,
    status: FinalizeStatus = FinalizeStatus.PENDING,
    attempts: int = 0,
    next_attempt_at: datetime = NOW,
    last_error: str | None = None,
    **changes: Any,
) -> RecordingFinalize:
    """The intent to finish the recording, due now and never tried."""
    entry = RecordingFinalize(
        id=id,
        recording_id=recording_id,
        session_kind=SessionKind.DIRECT,
        session_id=SESSION_ID,
        status=status,
        schedule=RetrySchedule(attempts=attempts, next_attempt_at=next_attempt_at, last_error=last_error),
        created_at=ENDED_AT,
        updated_at=ENDED_AT,
        version=5,
    )
    return evolve(entry, **changes)


def a_pair(number: int, **changes: Any) -> tuple[CallRecording, RecordingFinalize]:
    """A recording and its intent, with ids of their own; `changes` are those of the recording."""
    recording = a_recording(id=some_id(10_000 + number), **changes)
    return recording, an_entry(id=some_id(20_000 + number), recording_id=recording.id)


def seen(
    recording: CallRecording | None = None,
    entry: RecordingFinalize | None = None,
    *,
    event_recorded: bool = False,
) -> FinalizeSnapshot:
    return FinalizeSnapshot(entry=entry or an_entry(), recording=recording, event_recorded=event_recorded)


def found(**changes: Any) -> Found:
    """What storage says of a whole upload."""
    return evolve(
        Found(
            file_id=FILE_ID,
            size_bytes=4_096,
            format=RecordingFormat.WEBM,
            stated_duration=LASTED,
            measured_duration=None,
        ),
        **changes,
    )
