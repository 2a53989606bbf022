"""Explains a deal chat provision by the rule that selects it."""

from __future__ import annotations

from datetime import datetime

from ..domain.deal_chat_provision import DealChatProvision, ProvisioningRules, ProvisionStatus
from .explanation import Explanation, NextStep, Reason
from .ports.row_holder import RowHolder


def explain_provision(
    provision: DealChatProvision, *, as_of: datetime, rules: ProvisioningRules, holder: RowHolder | None
) -> Explanation:
    """Why a cycle started at ``as_of`` takes this row or leaves it, ``holder`` having it locked."""
    taken_from = provision.due_from(rules=rules)
    return Explanation(
        reason=_reason(provision, as_of, rules, locked=holder is not None),
        taken_from=taken_from,
        next_step=None if taken_from is None else NextStep.ATTEMPT,
        holder=holder,
    )


def _reason(
    provision: DealChatProvision, as_of: datetime, rules: ProvisioningRules, *, locked: bool
) -> Reason:
    schedule = provision.schedule
    if provision.status is ProvisionStatus.READY:
        return Reason.READY
    if schedule.exhausted(rules.max_attempts):
        return Reason.POISON
    if provision.is_due(as_of=as_of, rules=rules):
        return Reason.LOCKED if locked else Reason.DUE
    if provision.status is ProvisionStatus.PROVISIONING and (
        schedule.attempts == 0 or schedule.next_attempt_at <= as_of
    ):
        return Reason.FIRST_ATTEMPT_EXPECTED
    return Reason.SCHEDULED if schedule.attempts == 0 else Reason.BACKOFF
