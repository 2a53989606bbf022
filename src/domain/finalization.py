"""What becomes of an unfinished recording: the tables of phases and evidence as pure, total functions."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, assert_never

from attrs import frozen

from .backoff import BackoffPolicy
from .call_recording import (
    CallRecording,
    FailureReason,
    RecordingAvailable,
    RecordingFailed,
    RecordingStatus,
)
from .errors import AttemptError, InvariantViolation
from .evidence import Empty, Evidence, Found, Missing, StorageMisconfigured, Unreachable, Unsupported
from .recording_finalize import FinalizeStatus, RecordingFinalize

RECORDING_MISSING: Final = AttemptError("FinalizeGuard", "RECORDING_MISSING")
NEVER_SETTLED: Final = AttemptError("Finalize", "ATTEMPT_NEVER_SETTLED")


@frozen(kw_only=True)
class FinalizationRules:
    """The settings that finalization depends on. Raises `InvariantViolation` for values below their bounds."""

    max_attempts: int = 8
    finalize_sla_timeout: timedelta = timedelta(minutes=30)
    poll: timedelta = timedelta(seconds=60)
    backoff: BackoffPolicy = BackoffPolicy()

    def __attrs_post_init__(self) -> None:
        if self.max_attempts < 1:
            raise InvariantViolation("max_attempts must be at least 1")
        if self.finalize_sla_timeout < timedelta(0):
            raise InvariantViolation("finalize_sla_timeout must not be negative")


@frozen(kw_only=True)
class FinalizeSnapshot:
    """What one attempt decides on; ``event_recorded`` says whether the recording's event is in the outbox."""

    entry: RecordingFinalize
    recording: CallRecording | None
    event_recorded: bool


@frozen(kw_only=True)
class Republish:
    """The recording is available, and nobody was told."""

    entry: RecordingFinalize
    event: RecordingAvailable


@frozen(kw_only=True)
class Close:
    """The recording was finished by somebody else: nothing to tell."""

    entry: RecordingFinalize


@frozen(kw_only=True)
class Defer:
    """Too early to ask storage: wait, uncounted."""

    entry: RecordingFinalize


@frozen(kw_only=True)
class Claim:
    """Storage is to be asked: the attempt is counted first."""

    entry: RecordingFinalize


@frozen(kw_only=True)
class Adopt:
    """The file is in storage: the recording becomes available."""

    entry: RecordingFinalize
    recording: CallRecording
    event: RecordingAvailable


@frozen(kw_only=True)
class TimeOut:
    """Storage has no file, and the time for it is over: the recording is lost."""

    entry: RecordingFinalize
    recording: CallRecording
    event: RecordingFailed


@frozen(kw_only=True)
class RetryLater:
    """The attempt counts and failed; another one follows."""

    entry: RecordingFinalize
    error: AttemptError


@frozen(kw_only=True)
class Quarantine:
    """No further automatic attempt, and an alert."""

    entry: RecordingFinalize
    error: AttemptError


@frozen(kw_only=True)
class Release:
    """Storage could not be asked for a reason that is not this row's: the claim is given back, uncounted.

    Without an ``error`` it was not asked, for the cycle had ended.
    """

    entry: RecordingFinalize
    error: AttemptError | None


Settled = Republish | Close | Adopt | TimeOut | RetryLater | Quarantine | Release
Verdict = Settled | Defer | Claim


def open_attempt(
    seen: FinalizeSnapshot, *, now: datetime, spread: float, rules: FinalizationRules
) -> Republish | Close | Defer | Claim | RetryLater | Quarantine:
    """Decide what a due row's turn begins with, without asking storage. ``spread`` in [0, 1) shortens the backoff."""
    finished = _finished(seen, now=now)
    if finished is not None:
        return finished
    entry, recording = seen.entry, seen.recording
    if recording is not None and (until := _wait_until(recording, now=now, rules=rules)) is not None:
        return Defer(entry=entry.deferred(until=until, now=now))
    if entry.schedule.exhausted(rules.max_attempts):
        # Its last attempt was counted and never settled: the runner died while it asked.
        return Quarantine(entry=entry.quarantined(NEVER_SETTLED, now=now), error=NEVER_SETTLED)
    if recording is None:
        return refuse(entry, RECORDING_MISSING, now=now, spread=spread, rules=rules)
    delay = rules.backoff.delay(entry.schedule.attempts + 1, spread)
    return Claim(entry=entry.claimed(now=now, delay=delay))


def refuse(
    entry: RecordingFinalize, error: AttemptError, *, now: datetime, spread: float, rules: FinalizationRules
) -> RetryLater | Quarantine:
    """Count one attempt on an unclaimed row as failed by ``error``, whatever refused it.

    A row without an attempt left, whose last one was never settled, is quarantined as it is.
    """
    if entry.schedule.exhausted(rules.max_attempts):
        return Quarantine(entry=entry.quarantined(error, now=now), error=error)
    delay = rules.backoff.delay(entry.schedule.attempts + 1, spread)
    refused = entry.refused(error, now=now, delay=delay, max_attempts=rules.max_attempts)
    if refused.status is FinalizeStatus.QUARANTINED:
        return Quarantine(entry=refused, error=error)
    return RetryLater(entry=refused, error=error)


def settle(
    claimed: FinalizeSnapshot,
    evidence: Evidence,
    *,
    given_back_to: datetime,
    now: datetime,
    rules: FinalizationRules,
) -> Settled:
    """Decide what the evidence means for a claimed row, as the recording stands now.

    ``given_back_to`` is the ``next_attempt_at`` from before the claim. A recording that became terminal meanwhile is
    left as it is, whatever the evidence. Missing storage, refused credentials and outages never lose a recording.
    """
    finished = _finished(claimed, now=now)
    if finished is not None:
        return finished
    entry, recording = claimed.entry, claimed.recording
    if recording is None:
        return fail(entry, RECORDING_MISSING, now=now, rules=rules)
    match evidence:
        case Found():
            adopted, available = recording.became_available(recording.media_from(evidence), now=now)
            return Adopt(entry=entry.done(now=now), recording=adopted, event=available)
        case Missing():
            return _lost(entry, recording, AttemptError("Storage", "NOT_FOUND"), now=now)
        case Empty():
            return _lost(entry, recording, AttemptError("Storage", "EMPTY_OBJECT"), now=now)
        case Unsupported():
            error = AttemptError("Storage", evidence.code)
            return Quarantine(entry=entry.quarantined(error, now=now), error=error)
        case Unreachable():
            return fail(entry, AttemptError("Storage", evidence.code), now=now, rules=rules)
        case StorageMisconfigured():
            return release(
                entry, AttemptError("Storage", evidence.code), given_back_to=given_back_to, now=now
            )
        case _:
            assert_never(evidence)


def release(
    claimed: RecordingFinalize, error: AttemptError | None, *, given_back_to: datetime, now: datetime
) -> Release:
    """Give a claim back, because storage as a whole could not be asked, or was not asked any more."""
    return Release(entry=claimed.released(next_attempt_at=given_back_to, now=now), error=error)


def fail(
    claimed: RecordingFinalize, error: AttemptError, *, now: datetime, rules: FinalizationRules
) -> RetryLater | Quarantine:
    """End a claimed attempt, which counts, without a result; the last allowed one ends in quarantine."""
    if claimed.schedule.exhausted(rules.max_attempts):
        return Quarantine(entry=claimed.quarantined(error, now=now), error=error)
    return RetryLater(entry=claimed.retried(error, now=now), error=error)


def _finished(seen: FinalizeSnapshot, *, now: datetime) -> Republish | Close | None:
    recording = seen.recording
    if recording is None or not recording.terminal:
        return None
    entry = seen.entry.done(now=now)
    if recording.status is RecordingStatus.AVAILABLE and not seen.event_recorded:
        return Republish(entry=entry, event=RecordingAvailable(recording=recording))
    return Close(entry=entry)


def _wait_until(recording: CallRecording, *, now: datetime, rules: FinalizationRules) -> datetime | None:
    """The time before which storage is not asked; None when it is now."""
    if recording.status is RecordingStatus.PENDING or recording.session_ended_at is None:
        # Half a poll ahead: a tick that comes a little early must not miss it.
        return now + rules.poll / 2
    deadline = recording.session_ended_at + rules.finalize_sla_timeout
    return deadline if deadline > now else None


def _lost(
    entry: RecordingFinalize, recording: CallRecording, error: AttemptError, *, now: datetime
) -> TimeOut:
    failed, event = recording.was_lost(FailureReason.TIMEOUT, now=now)
    return TimeOut(entry=entry.done(now=now, error=error), recording=failed, event=event)
