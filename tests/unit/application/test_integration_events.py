from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest
from attrs import evolve
from messenger_jobs.application.integration_events import (
    call_recording_available,
    deal_chat_status_changed,
    rfc3339,
)
from messenger_jobs.application.ports.outbox import OutboxMessage
from messenger_jobs.domain.call_recording import CallRecording, RecordingAvailable, RecordingStatus
from messenger_jobs.domain.deal_chat_provision import DealChatStatusChanged, ProvisionStatus
from messenger_jobs.domain.errors import InvariantViolation

from tests.support.builders import CHAT_ID, DEAL_ID, NOW, TENANT_ID, some_id
from tests.support.recordings import FILE_ID, MEDIA, RECORDING_ID, SESSION_ID, a_recording
from tests.unit.application.traces import TRACE

EVENT_ID, RUN_ID = some_id(21), some_id(22)
AVAILABLE = a_recording(status=RecordingStatus.AVAILABLE, tenant_id=TENANT_ID)
READY = DealChatStatusChanged(deal_id=DEAL_ID, chat_id=CHAT_ID, status=ProvisionStatus.READY, occurred_at=NOW)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 5, 1, 10, tzinfo=UTC), "2026-05-01T10:00:00.000000Z"),
        (datetime(2026, 5, 1, 10, 0, 0, 1, tzinfo=UTC), "2026-05-01T10:00:00.000001Z"),
        (datetime(2026, 1, 1, 1, 30, tzinfo=timezone(timedelta(hours=5))), "2025-12-31T20:30:00.000000Z"),
    ],
)
def test_times_are_utc_with_microseconds(moment: datetime, text: str) -> None:
    assert rfc3339(moment) == text


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of a process cannot be set here")
def test_times_are_utc_wherever_the_machine_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as machine:
        machine.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        text = rfc3339(NOW)
    time.tzset()
    assert text == "2026-03-14T09:26:53.589793Z"


def test_status_message_is_the_published_contract() -> None:
    assert deal_chat_status_changed(READY, event_id=EVENT_ID, correlation_id=RUN_ID) == OutboxMessage(
        event_id=EVENT_ID,
        topic="pin.messenger.deal-chat-status-changed.v1",
        message_key=str(DEAL_ID),
        aggregate_type="DealChatProvision",
        aggregate_id=str(DEAL_ID),
        event_type="DealChatStatusChanged",
        contract_version=1,
        payload={
            "dealId": str(DEAL_ID),
            "chatId": str(CHAT_ID),
            "status": "Ready",
            "occurredAt": "2026-03-14T09:26:53.589793Z",
        },
        headers={
            "event-id": str(EVENT_ID),
            "event-type": "DealChatStatusChanged",
            "contract-version": "1",
            "correlation-id": str(RUN_ID),
        },
        occurred_at=NOW,
        dedupe_key=None,
    )


def test_failure_without_a_chat_names_none() -> None:
    failed = evolve(READY, status=ProvisionStatus.FAILED, chat_id=None)
    message = deal_chat_status_changed(failed, event_id=EVENT_ID, correlation_id=RUN_ID)
    assert message.payload == {
        "dealId": str(DEAL_ID),
        "status": "Failed",
        "occurredAt": "2026-03-14T09:26:53.589793Z",
    }


def test_announcement_is_the_published_contract() -> None:
    event = RecordingAvailable(recording=AVAILABLE)
    assert call_recording_available(event, event_id=EVENT_ID, correlation_id=RUN_ID) == OutboxMessage(
        event_id=EVENT_ID,
        topic="pin.messenger.call-recording-available.v1",
        message_key=str(SESSION_ID),
        aggregate_type="CallRecording",
        aggregate_id=str(SESSION_ID),
        event_type="CallRecordingAvailable",
        contract_version=1,
        payload={
            "recordingId": str(RECORDING_ID),
            "sessionKind": "Direct",
            "sessionId": str(SESSION_ID),
            "chatId": str(some_id(35)),
            "dealId": str(some_id(36)),
            "tenantId": str(TENANT_ID),
            "mediaType": "Video",
            "fileId": str(FILE_ID),
            "format": "WebM",
            "durationSeconds": 3_600,
            "sizeBytes": 4_096,
            "trigger": "Manual",
            "startedAt": "2026-03-14T07:26:53.589793Z",
            "endedAt": "2026-03-14T08:26:53.589793Z",
            "availableAt": "2026-03-14T09:16:53.589793Z",
        },
        headers={
            "event-id": str(EVENT_ID),
            "event-type": "CallRecordingAvailable",
            "contract-version": "1",
            "correlation-id": str(RUN_ID),
        },
        occurred_at=NOW - timedelta(minutes=10),
        dedupe_key=f"call-recording-available:{RECORDING_ID}",
    )


def test_announcement_names_nothing_that_the_recording_has_not() -> None:
    event = RecordingAvailable(recording=evolve(AVAILABLE, chat_id=None, deal_id=None, tenant_id=None))
    message = call_recording_available(event, event_id=EVENT_ID, correlation_id=RUN_ID)
    assert message.payload.keys().isdisjoint({"chatId", "dealId", "tenantId"})


@pytest.mark.parametrize(
    ("recording", "ended_at"),
    [
        (evolve(AVAILABLE, session_ended_at=NOW), "2026-03-14T08:26:53.589793Z"),
        (evolve(AVAILABLE, ended_at=None, session_ended_at=NOW), "2026-03-14T09:26:53.589793Z"),
        (evolve(AVAILABLE, ended_at=None, session_ended_at=None), "2026-03-14T09:16:53.589793Z"),
    ],
    ids=["its own end", "its session's end", "when it became available"],
)
def test_recording_ended_at_the_best_known_time(recording: CallRecording, ended_at: str) -> None:
    event = RecordingAvailable(recording=recording)
    message = call_recording_available(event, event_id=EVENT_ID, correlation_id=RUN_ID)
    assert message.payload["endedAt"] == ended_at


@pytest.mark.parametrize(
    "recording",
    [a_recording(), a_recording(media=MEDIA), a_recording(available_at=NOW)],
    ids=["nothing of it", "without the time", "without the file"],
)
def test_recording_that_is_not_available_is_not_announced(recording: CallRecording) -> None:
    with pytest.raises(InvariantViolation):
        call_recording_available(
            RecordingAvailable(recording=recording), event_id=EVENT_ID, correlation_id=RUN_ID
        )


def test_readers_can_go_on_with_the_trace_of_the_attempt() -> None:
    told = deal_chat_status_changed(READY, event_id=EVENT_ID, correlation_id=RUN_ID, trace=TRACE)
    announced = call_recording_available(
        RecordingAvailable(recording=AVAILABLE), event_id=EVENT_ID, correlation_id=RUN_ID, trace=TRACE
    )
    for message in (told, announced):
        assert {**message.headers, **TRACE} == message.headers
        assert len(message.headers) == 5
