"""Where a row stands for its job, by the domain's own rules."""

from __future__ import annotations

from datetime import datetime

from ..domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from ..domain.recording_finalize import FinalizeStatus, RecordingFinalize
from .ports.row_summary import RowState


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
