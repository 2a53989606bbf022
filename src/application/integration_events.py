"""Domain events as the messages that other services read: topics, keys, types and payloads."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from ..domain.call_recording import RecordingAvailable
from ..domain.deal_chat_provision import DealChatStatusChanged
from ..domain.errors import InvariantViolation
from .ports.outbox import JsonValue, OutboxMessage

DEAL_CHAT_STATUS_CHANGED_TOPIC: Final = "pin.messenger.deal-chat-status-changed.v1"
CALL_RECORDING_AVAILABLE_TOPIC: Final = "pin.messenger.call-recording-available.v1"
CONTRACT_VERSION: Final = 1
CORRELATION_ID_HEADER: Final = "correlation-id"
EVENT_ID_HEADER: Final = "event-id"
EVENT_TYPE_HEADER: Final = "event-type"
CONTRACT_VERSION_HEADER: Final = "contract-version"
_NO_TRACE: Final[Mapping[str, str]] = {}


def rfc3339(moment: datetime) -> str:
    """An aware time as RFC 3339 text in UTC with microseconds, for example ``2026-05-01T10:00:00.000000Z``."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def deal_chat_status_changed(
    event: DealChatStatusChanged,
    *,
    event_id: UUID,
    correlation_id: UUID,
    trace: Mapping[str, str] = _NO_TRACE,
) -> OutboxMessage:
    """The message that tells the CRM; its key is the deal, so one deal's statuses stay in order.

    ``trace`` are the headers with which readers go on with the trace of the attempt.
    """
    payload: dict[str, JsonValue] = {
        "dealId": str(event.deal_id),
        "status": event.status.value,
        "occurredAt": rfc3339(event.occurred_at),
    }
    if event.chat_id is not None:
        payload["chatId"] = str(event.chat_id)
    return _message(
        topic=DEAL_CHAT_STATUS_CHANGED_TOPIC,
        aggregate_type="DealChatProvision",
        aggregate_id=event.deal_id,
        event_type="DealChatStatusChanged",
        payload=payload,
        event_id=event_id,
        correlation_id=correlation_id,
        trace=trace,
        occurred_at=event.occurred_at,
    )


def call_recording_available(
    event: RecordingAvailable, *, event_id: UUID, correlation_id: UUID, trace: Mapping[str, str] = _NO_TRACE
) -> OutboxMessage:
    """The message that announces a recording; its key is the session, and its ``dedupe_key`` lets it exist once.

    ``trace`` as in `deal_chat_status_changed`.
    """
    recording = event.recording
    media, available_at = recording.media, recording.available_at
    if media is None or available_at is None:
        raise InvariantViolation("only an available recording is announced")
    ended_at = recording.ended_at or recording.session_ended_at or available_at
    optional = {"chatId": recording.chat_id, "dealId": recording.deal_id, "tenantId": recording.tenant_id}
    payload: dict[str, JsonValue] = {
        "recordingId": str(recording.id),
        "sessionKind": recording.session_kind.value,
        "sessionId": str(recording.session_id),
        **{name: str(value) for name, value in optional.items() if value is not None},
        "mediaType": recording.media_type.value,
        "fileId": str(media.file_id),
        "format": media.format.value,
        "durationSeconds": media.duration_seconds,
        "sizeBytes": media.size_bytes,
        "trigger": recording.trigger,
        "startedAt": rfc3339(recording.started_at),
        "endedAt": rfc3339(ended_at),
        "availableAt": rfc3339(available_at),
    }
    return _message(
        topic=CALL_RECORDING_AVAILABLE_TOPIC,
        aggregate_type="CallRecording",
        aggregate_id=recording.session_id,
        event_type="CallRecordingAvailable",
        payload=payload,
        event_id=event_id,
        correlation_id=correlation_id,
        trace=trace,
        occurred_at=available_at,
        dedupe_key=call_recording_available_key(recording.id),
    )


def call_recording_available_key(recording_id: UUID) -> str:
    """The ``dedupe_key`` whose presence in the outbox means that the announcement is published or will be."""
    return f"call-recording-available:{recording_id}"


def _message(
    *,
    topic: str,
    aggregate_type: str,
    aggregate_id: UUID,
    event_type: str,
    payload: dict[str, JsonValue],
    event_id: UUID,
    correlation_id: UUID,
    trace: Mapping[str, str],
    occurred_at: datetime,
    dedupe_key: str | None = None,
) -> OutboxMessage:
    return OutboxMessage(
        event_id=event_id,
        topic=topic,
        message_key=str(aggregate_id),
        aggregate_type=aggregate_type,
        aggregate_id=str(aggregate_id),
        event_type=event_type,
        contract_version=CONTRACT_VERSION,
        payload=payload,
        headers={
            EVENT_ID_HEADER: str(event_id),
            EVENT_TYPE_HEADER: event_type,
            CONTRACT_VERSION_HEADER: str(CONTRACT_VERSION),
            CORRELATION_ID_HEADER: str(correlation_id),
            **trace,
        },
        occurred_at=occurred_at,
        dedupe_key=dedupe_key,
    )
