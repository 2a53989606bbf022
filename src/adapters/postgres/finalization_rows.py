"""Between rows and the domain's recordings and finalizations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, LiteralString

from ...application.ports.finalization import FinalizationChange
from ...application.ports.outbox import OutboxMessage
from ...application.ports.realtime_outbox import RealtimeNotice
from ...domain.call_recording import CallRecording, Media, MediaType, RecordingStatus, SessionKind
from ...domain.evidence import RecordingFormat
from ...domain.finalization import FinalizeSnapshot
from ...domain.recording_finalize import FinalizeStatus, RecordingFinalize
from ...domain.retry_schedule import RetrySchedule
from .fetching import Row
from .finalization_statements import WRITE, WRITE_ENTRY

_ENTRY_COLUMNS: Final = 11


def snapshot_from(row: Row) -> FinalizeSnapshot:
    """What an attempt decides on, from ``ENTRY_COLUMNS``, ``RECORDING_COLUMNS`` and the event's presence."""
    recording = row[_ENTRY_COLUMNS:-1]
    return FinalizeSnapshot(
        entry=entry_from(row[:_ENTRY_COLUMNS]),
        recording=None if recording[0] is None else recording_from(recording),
        event_recorded=row[-1],
    )


def entry_from(row: Row) -> RecordingFinalize:
    """The finalization in ``ENTRY_COLUMNS``."""
    return RecordingFinalize(
        id=row[0],
        recording_id=row[1],
        session_kind=SessionKind(row[2]),
        session_id=row[3],
        status=FinalizeStatus(row[4]),
        schedule=RetrySchedule(attempts=row[5], next_attempt_at=row[6], last_error=row[7]),
        created_at=row[8],
        updated_at=row[9],
        version=row[10],
    )


def recording_from(row: Row) -> CallRecording:
    """The recording in ``RECORDING_COLUMNS``."""
    return CallRecording(
        id=row[0],
        session_kind=SessionKind(row[1]),
        session_id=row[2],
        session_ended_at=row[3],
        chat_id=row[4],
        deal_id=row[5],
        tenant_id=row[6],
        media_type=MediaType(row[7]),
        status=RecordingStatus(row[8]),
        trigger=row[9],
        object_key=row[10],
        media=_media(*row[11:15]),
        failure_reason=row[15],
        started_at=row[16],
        ended_at=row[17],
        available_at=row[18],
        created_at=row[19],
        updated_at=row[20],
        version=row[21],
    )


def entry_parameters(entry: RecordingFinalize) -> dict[str, object]:
    """What the statements need of a finalization."""
    return {
        "entry_id": entry.id,
        "entry_recording_id": entry.recording_id,
        "entry_session_kind": entry.session_kind.value,
        "entry_session_id": entry.session_id,
        "entry_status": entry.status.value,
        "attempts": entry.schedule.attempts,
        "next_attempt_at": entry.schedule.next_attempt_at,
        "last_error": entry.schedule.last_error,
        "entry_created_at": entry.created_at,
        "entry_updated_at": entry.updated_at,
        "entry_version": entry.version,
    }


def writing(change: FinalizationChange) -> tuple[LiteralString, dict[str, object]]:
    """The statement that writes the change; it changes, or answers with, one row when it has."""
    if change.entry is not None and (change.recording, change.message, change.notice) == (None, None, None):
        return WRITE_ENTRY, entry_parameters(change.entry)
    return WRITE, {
        **_NOTHING,
        **({} if change.entry is None else entry_parameters(change.entry)),
        **({} if change.recording is None else _recording_parameters(change.recording)),
        **({} if change.message is None else _message_parameters(change.message)),
        **({} if change.notice is None else _notice_parameters(change.notice)),
    }


def _media(file_id: Any, size_bytes: Any, duration_seconds: Any, format: Any) -> Media | None:
    # A recorder may store parts of it ahead: they mean nothing before all of them are there (INV-REC-5).
    if file_id is None or size_bytes is None or duration_seconds is None or format is None:
        return None
    return Media(
        file_id=file_id,
        size_bytes=size_bytes,
        duration_seconds=duration_seconds,
        format=RecordingFormat(format),
    )


def _recording_parameters(recording: CallRecording) -> dict[str, object]:
    media = recording.media
    return {
        "recording_id": recording.id,
        "recording_status": recording.status.value,
        "file_id": None if media is None else media.file_id,
        "size_bytes": None if media is None else media.size_bytes,
        "duration_seconds": None if media is None else media.duration_seconds,
        "format": None if media is None else media.format.value,
        "failure_reason": recording.failure_reason,
        "ended_at": recording.ended_at,
        "available_at": recording.available_at,
        "recording_updated_at": recording.updated_at,
        "recording_version": recording.version,
    }


def _message_parameters(message: OutboxMessage) -> dict[str, object]:
    return {
        "event_id": message.event_id,
        "topic": message.topic,
        "message_key": message.message_key,
        "aggregate_type": message.aggregate_type,
        "aggregate_id": message.aggregate_id,
        "event_type": message.event_type,
        "contract_version": message.contract_version,
        "payload": json.dumps(message.payload),
        "headers": json.dumps(message.headers),
        "dedupe_key": message.dedupe_key,
        "occurred_at": message.occurred_at,
    }


def _notice_parameters(notice: RealtimeNotice) -> dict[str, object]:
    return {
        "notice_id": notice.id,
        "notice_kind": notice.kind.value,
        "notice_session_kind": notice.session_kind.value,
        "notice_session_id": notice.session_id,
        "reference_id": notice.reference_id,
        "notice_created_at": notice.created_at,
    }


_NAMES: Final[tuple[str, ...]] = (
    *("entry_id", "entry_status", "attempts", "next_attempt_at", "last_error", "entry_updated_at"),
    *("entry_version", "recording_id", "recording_status", "file_id", "size_bytes", "duration_seconds"),
    *(
        "format",
        "failure_reason",
        "ended_at",
        "available_at",
        "recording_updated_at",
        "recording_version",
    ),
    *("event_id", "topic", "message_key", "aggregate_type", "aggregate_id", "event_type"),
    *("contract_version", "payload", "headers", "dedupe_key", "occurred_at", "notice_id", "notice_kind"),
    *("notice_session_kind", "notice_session_id", "reference_id", "notice_created_at"),
)
_NOTHING: Final[Mapping[str, object]] = dict.fromkeys(_NAMES)
