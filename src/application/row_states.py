"""What a row is to those who look at it, and where it stands for its job, by the domain's own rules."""

from __future__ import annotations

from datetime import datetime

from ..domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from ..domain.recording_finalize import FinalizeStatus, RecordingFinalize
from .ports.row_summary import RowState, RowSummary


def provision_state(provision: DealChatProvision, *, as_of: datetime, rules: ProvisioningRules) -> RowState:
    """Where the provision stands for a cycle that starts at ``as_of``."""
    if provision.status is ProvisionStatus.READY:
        return RowState.FINISHED
    if provision.schedule.exhausted(rules.max_attempts):
        return RowState.POISON
    return RowState.DUE if provision.is_due(as_of=as_of, rules=rules) else RowState.WAITING


def finalization_state(entry: RecordingFinalize, *, as_of: datetime) -> RowState:
    """Where the finalization stands for a cycle that starts at ``as_of``."""
    match entry.status:
        case FinalizeStatus.DONE:
            return RowState.FINISHED
        case FinalizeStatus.QUARANTINED:
            return RowState.POISON
        case FinalizeStatus.PENDING:
            return RowState.DUE if entry.is_due(as_of=as_of) else RowState.WAITING


def provision_summary(provision: DealChatProvision) -> RowSummary:
    """The provision without what only its deal may know."""
    return RowSummary(
        id=provision.id,
        subject={"deal_id": provision.deal_id, "chat_id": provision.chat_id},
        status=provision.status.value,
        attempts=provision.schedule.attempts,
        next_attempt_at=provision.schedule.next_attempt_at,
        last_error=provision.schedule.last_error,
        created_at=provision.created_at,
        updated_at=provision.updated_at,
    )


def finalization_summary(entry: RecordingFinalize) -> RowSummary:
    """The finalization alone."""
    return RowSummary(
        id=entry.id,
        subject={"recording_id": entry.recording_id, "session_id": entry.session_id},
        status=entry.status.value,
        attempts=entry.schedule.attempts,
        next_attempt_at=entry.schedule.next_attempt_at,
        last_error=entry.schedule.last_error,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
    )
