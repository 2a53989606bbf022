"""The state machines of the domain, and what they are explored from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from messenger_jobs.domain.call_recording import (
    CallRecording,
    FailureReason,
    Media,
    MediaType,
    RecordingStatus,
    SessionKind,
)
from messenger_jobs.domain.deal_chat_provision import (
    DealChatProvision,
    DealChatStatusChanged,
    ProvisionStatus,
)
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.evidence import RecordingFormat
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tools.reference.exploration import Machine

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
SOME_ID: Final = UUID(int=1)
MAX_ATTEMPTS: Final = 2  # the first, and the last
SCHEDULE: Final = RetrySchedule(attempts=0, next_attempt_at=NOW)
MEDIA: Final = Media(file_id=SOME_ID, size_bytes=1, duration_seconds=1, format=RecordingFormat.MP4)

ARGUMENTS: Final[dict[str, object]] = {
    "now": NOW,
    "delay": timedelta(0),
    "until": NOW,
    "next_attempt_at": NOW,
    "max_attempts": MAX_ATTEMPTS,
    "chat_id": SOME_ID,
    "error": AttemptError("Some", "ERROR"),
    "media": MEDIA,
    "reason": FailureReason.TIMEOUT,
}


def provision_machine(max_attempts: int = MAX_ATTEMPTS) -> Machine[DealChatProvision]:
    """An intent to provision a deal's chat, from its insertion on."""

    def state(provision: DealChatProvision) -> str:
        used_up = provision.schedule.exhausted(max_attempts) and provision.status is not ProvisionStatus.READY
        return f"{provision.status}, attempts used up" if used_up else provision.status

    def event(event: DealChatStatusChanged) -> str:
        return f"{type(event).__name__}({event.status})"

    first = DealChatProvision(
        id=SOME_ID,
        deal_id=SOME_ID,
        chat_id=None,
        title="",
        project_id=None,
        deal_tenant_id=None,
        status=ProvisionStatus.PROVISIONING,
        schedule=SCHEDULE,
        members=(),
        created_at=NOW,
        updated_at=NOW,
        version=0,
    )
    return Machine(
        first=[first],
        arguments={**ARGUMENTS, "max_attempts": max_attempts},
        state=state,
        event=event,
        may_go_on=lambda _: True,
    )


def finalize_machine() -> Machine[RecordingFinalize]:
    """An intent to finish a recording, from its opening on; claims beyond the last attempt are not followed."""
    first = RecordingFinalize(
        id=SOME_ID,
        recording_id=SOME_ID,
        session_kind=SessionKind.DIRECT,
        session_id=SOME_ID,
        status=FinalizeStatus.PENDING,
        schedule=SCHEDULE,
        created_at=NOW,
        updated_at=NOW,
        version=0,
    )
    return Machine(
        first=[first],
        arguments=ARGUMENTS,
        state=lambda entry: entry.status,
        event=str,
        may_go_on=lambda entry: entry.schedule.attempts <= MAX_ATTEMPTS,
    )


def recording_machine() -> Machine[CallRecording]:
    """A recording in each state in which its recorder may leave it."""
    return Machine(
        first=[a_recording(status) for status in RecordingStatus],
        arguments=ARGUMENTS,
        state=lambda recording: recording.status,
        event=lambda event: type(event).__name__,
        may_go_on=lambda _: True,
    )


def a_recording(status: RecordingStatus) -> CallRecording:
    """A recording of a session that is over."""
    return CallRecording(
        id=SOME_ID,
        session_kind=SessionKind.DIRECT,
        session_id=SOME_ID,
        session_ended_at=NOW - timedelta(days=1),
        chat_id=None,
        deal_id=None,
        tenant_id=None,
        media_type=MediaType.AUDIO,
        status=status,
        trigger="",
        object_key="key",
        media=MEDIA,
        failure_reason=None,
        started_at=NOW - timedelta(days=1),
        ended_at=None,
        available_at=NOW,
        created_at=NOW,
        updated_at=NOW,
        version=0,
    )
