"""What a finalization's verdict is called in logs, metrics and summaries."""

from __future__ import annotations

from typing import assert_never
from uuid import UUID

from ..domain.finalization import (
    Adopt,
    Claim,
    Close,
    Defer,
    FinalizeSnapshot,
    Quarantine,
    Release,
    Republish,
    RetryLater,
    TimeOut,
    Verdict,
)
from .cycle_report import AttemptReport, Outcome


def report(seen: FinalizeSnapshot, verdict: Verdict) -> AttemptReport:
    """The report of a committed verdict."""
    subject = _subject(seen)
    if isinstance(verdict, Adopt) and verdict.recording.media is not None:
        subject["file_id"] = verdict.recording.media.file_id
    return AttemptReport(
        outcome=_outcome(verdict),
        subject=subject,
        attempts=verdict.entry.schedule.attempts,
        error_code=_error_code(verdict),
    )


def skipped(seen: FinalizeSnapshot) -> AttemptReport:
    """The report of a row that somebody else has, or that was left for the next cycle."""
    return AttemptReport(outcome=Outcome.SKIPPED, subject=_subject(seen))


def _subject(seen: FinalizeSnapshot) -> dict[str, UUID]:
    return {"recording_id": seen.entry.recording_id, "session_id": seen.entry.session_id}


def _error_code(verdict: Verdict) -> str | None:
    match verdict:
        case RetryLater() | Quarantine():
            return str(verdict.error)
        case Release():
            return None if verdict.error is None else str(verdict.error)
        case TimeOut():
            return verdict.entry.schedule.last_error
        case Republish() | Close() | Adopt() | Defer() | Claim():
            return None
        case _:
            assert_never(verdict)


def _outcome(verdict: Verdict) -> Outcome:
    match verdict:
        case Adopt():
            return Outcome.RECONCILED
        case Republish():
            return Outcome.REPUBLISHED
        case Close():
            return Outcome.CLOSED
        case Defer():
            return Outcome.DEFERRED
        case TimeOut():
            return Outcome.FAILED
        case RetryLater():
            return Outcome.RETRIED
        case Quarantine():
            return Outcome.QUARANTINED
        case Release():
            return Outcome.RELEASED
        case Claim():
            raise ValueError("a claim is no outcome")
        case _:
            assert_never(verdict)
