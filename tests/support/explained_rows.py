"""Rows of every kind that an operator may ask about, and what is true of them at `NOW`."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from messenger_jobs.application.explanation import NextStep, Reason
from messenger_jobs.domain.call_recording import CallRecording, RecordingStatus
from messenger_jobs.domain.deal_chat_provision import DealChatProvision
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize

from tests.support.builders import NOW, a_failed_provision, a_provision, a_ready_provision
from tests.support.recordings import SLA, a_recording, an_entry

MINUTE: Final = timedelta(minutes=1)

PROVISIONS: Final[dict[str, tuple[DealChatProvision, Reason]]] = {
    "failed, its time has come": (a_failed_provision(), Reason.DUE),
    "stuck since this microsecond": (a_provision(), Reason.DUE),
    "requeued": (a_failed_provision(attempts=0), Reason.DUE),
    "failed, waits for its backoff": (a_failed_provision(next_attempt_at=NOW + MINUTE), Reason.BACKOFF),
    "just stored": (a_provision(updated_at=NOW), Reason.FIRST_ATTEMPT_EXPECTED),
    "just stored, with the delay in its schedule": (
        a_provision(updated_at=NOW, next_attempt_at=NOW + 6 * MINUTE),
        Reason.FIRST_ATTEMPT_EXPECTED,
    ),
    "touched a moment ago, whatever its schedule says": (
        a_provision(updated_at=NOW - MINUTE, attempts=2, next_attempt_at=NOW - MINUTE),
        Reason.FIRST_ATTEMPT_EXPECTED,
    ),
    "touched a moment ago, its backoff over since this microsecond": (
        a_provision(updated_at=NOW - MINUTE, attempts=2, next_attempt_at=NOW),
        Reason.FIRST_ATTEMPT_EXPECTED,
    ),
    "touched a moment ago by somebody who counts": (
        a_provision(updated_at=NOW - MINUTE, attempts=2, next_attempt_at=NOW + 9 * MINUTE),
        Reason.BACKOFF,
    ),
    "never tried, and put off": (
        a_failed_provision(attempts=0, next_attempt_at=NOW + MINUTE),
        Reason.SCHEDULED,
    ),
    "poison": (a_failed_provision(attempts=8), Reason.POISON),
    "poison that was never failed": (a_provision(attempts=8), Reason.POISON),
    "ready": (a_ready_provision(), Reason.READY),
}

Pair = tuple[CallRecording | None, RecordingFinalize]

RECORDINGS: Final[dict[str, tuple[Pair, Reason, NextStep | None]]] = {
    "its upload is overdue": ((a_recording(), an_entry()), Reason.DUE, NextStep.RECONCILE),
    "available and not announced": (
        (a_recording(status=RecordingStatus.AVAILABLE), an_entry()),
        Reason.DUE,
        NextStep.REPUBLISH,
    ),
    "lost by somebody else": (
        (a_recording(status=RecordingStatus.FAILED), an_entry()),
        Reason.DUE,
        NextStep.CLOSE,
    ),
    "missing": ((None, an_entry()), Reason.DUE, NextStep.REFUSE),
    "its last attempt never ended": ((a_recording(), an_entry(attempts=8)), Reason.DUE, NextStep.QUARANTINE),
    "polled while the call goes on": (
        (a_recording(status=RecordingStatus.RECORDING, session_ended_at=None, ended_at=None), an_entry()),
        Reason.DUE,
        NextStep.DEFER,
    ),
    "polled before its deadline": (
        (a_recording(session_ended_at=NOW - MINUTE), an_entry()),
        Reason.DUE,
        NextStep.DEFER,
    ),
    "waits for its deadline": (
        (
            a_recording(session_ended_at=NOW - MINUTE),
            an_entry(next_attempt_at=NOW - MINUTE + SLA),
        ),
        Reason.BEFORE_DEADLINE,
        NextStep.RECONCILE,
    ),
    "waits while the call goes on": (
        (
            a_recording(status=RecordingStatus.RECORDING, session_ended_at=None, ended_at=None),
            an_entry(next_attempt_at=NOW + MINUTE / 2),
        ),
        Reason.SESSION_NOT_ENDED,
        NextStep.DEFER,
    ),
    "waits for its backoff": (
        (a_recording(), an_entry(attempts=3, next_attempt_at=NOW + 4 * MINUTE)),
        Reason.BACKOFF,
        NextStep.RECONCILE,
    ),
    "never tried, and put off": (
        (a_recording(), an_entry(next_attempt_at=NOW + 4 * MINUTE)),
        Reason.SCHEDULED,
        NextStep.RECONCILE,
    ),
    "quarantined": (
        (a_recording(), an_entry(status=FinalizeStatus.QUARANTINED, attempts=8)),
        Reason.QUARANTINED,
        None,
    ),
    "done": (
        (a_recording(status=RecordingStatus.AVAILABLE), an_entry(status=FinalizeStatus.DONE)),
        Reason.DONE,
        None,
    ),
}
