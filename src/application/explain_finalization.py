"""Explains a recording's finalization by the functions that decide on it."""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from ..domain.call_recording import CallRecording, RecordingStatus
from ..domain.finalization import (
    Claim,
    Close,
    Defer,
    FinalizationRules,
    FinalizeSnapshot,
    Quarantine,
    Republish,
    RetryLater,
    open_attempt,
)
from ..domain.recording_finalize import FinalizeStatus
from .explanation import Explanation, NextStep, Reason
from .ports.row_holder import RowHolder


def explain_finalization(
    seen: FinalizeSnapshot,
    *,
    as_of: datetime,
    rules: FinalizationRules,
    holder: RowHolder | None = None,
    recording_holder: RowHolder | None = None,
) -> Explanation:
    """Why a cycle started at ``as_of`` takes this row or leaves it, the holders having it and its recording locked."""
    entry = seen.entry
    match entry.status:
        case FinalizeStatus.DONE:
            return _never(Reason.DONE, holder)
        case FinalizeStatus.QUARANTINED:
            return _never(Reason.QUARANTINED, holder)
        case FinalizeStatus.PENDING:
            pass
    taken_from = entry.schedule.next_attempt_at
    now = open_attempt(seen, now=as_of, spread=0.0, rules=rules)
    then = open_attempt(seen, now=max(as_of, taken_from), spread=0.0, rules=rules)
    waits = isinstance(now, Defer)
    return Explanation(
        reason=_reason(seen, as_of, waits=waits, locked=holder is not None),
        taken_from=taken_from,
        next_step=_step(then),
        holder=holder,
        recording_holder=recording_holder,
        waits_for=now.entry.schedule.next_attempt_at
        if isinstance(now, Defer) and _ended(seen.recording)
        else None,
    )


def _never(reason: Reason, holder: RowHolder | None) -> Explanation:
    return Explanation(reason=reason, taken_from=None, next_step=None, holder=holder)


def _reason(seen: FinalizeSnapshot, as_of: datetime, *, waits: bool, locked: bool) -> Reason:
    if seen.entry.is_due(as_of=as_of):
        return Reason.LOCKED if locked else Reason.DUE
    if waits:
        return Reason.BEFORE_DEADLINE if _ended(seen.recording) else Reason.SESSION_NOT_ENDED
    return Reason.SCHEDULED if seen.entry.schedule.attempts == 0 else Reason.BACKOFF


def _ended(recording: CallRecording | None) -> bool:
    """Whether the time until storage is asked has begun to run."""
    return (
        recording is not None
        and recording.status is not RecordingStatus.PENDING
        and recording.session_ended_at is not None
    )


def _step(verdict: Republish | Close | Defer | Claim | RetryLater | Quarantine) -> NextStep:
    match verdict:
        case Claim():
            return NextStep.RECONCILE
        case Republish():
            return NextStep.REPUBLISH
        case Close():
            return NextStep.CLOSE
        case Defer():
            return NextStep.DEFER
        case RetryLater():
            return NextStep.REFUSE
        case Quarantine():
            return NextStep.QUARANTINE
        case _:
            assert_never(verdict)
