from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from attrs import evolve
from messenger_jobs.domain.errors import AttemptError, IllegalTransition
from messenger_jobs.domain.recording_finalize import FinalizeStatus, RecordingFinalize
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.support.builders import MICROSECOND, NOW
from tests.support.recordings import an_entry

ERROR = AttemptError("Storage", "TIMEOUT")
DELAY = timedelta(minutes=2)
LATER = NOW + timedelta(seconds=3)


def after(entry: RecordingFinalize, status: FinalizeStatus, schedule: RetrySchedule) -> RecordingFinalize:
    return evolve(entry, status=status, schedule=schedule, updated_at=LATER, version=entry.version + 1)


@pytest.mark.parametrize("status", FinalizeStatus)
@pytest.mark.parametrize("offset", [-MICROSECOND, timedelta(0), MICROSECOND])
def test_pending_row_is_due_from_its_time_on(status: FinalizeStatus, offset: timedelta) -> None:
    entry = an_entry(status=status, next_attempt_at=NOW + offset, attempts=100)
    assert entry.is_due(as_of=NOW) is (status is FinalizeStatus.PENDING and offset <= timedelta(0))


def test_claim_counts_and_leases() -> None:
    entry = an_entry(attempts=2, last_error=str(ERROR))
    assert entry.claimed(now=LATER, delay=DELAY) == after(
        entry,
        FinalizeStatus.PENDING,
        RetrySchedule(attempts=3, next_attempt_at=LATER + DELAY, last_error=str(ERROR)),
    )


def test_failed_claim_keeps_its_schedule() -> None:
    entry = an_entry(attempts=2, next_attempt_at=NOW + DELAY)
    assert entry.retried(ERROR, now=LATER) == after(
        entry,
        FinalizeStatus.PENDING,
        RetrySchedule(attempts=2, next_attempt_at=NOW + DELAY, last_error="Storage:TIMEOUT"),
    )


@pytest.mark.parametrize(
    ("attempts", "status"), [(0, FinalizeStatus.PENDING), (7, FinalizeStatus.QUARANTINED)]
)
def test_refusal_counts_in_one_step_and_quarantines_the_last(attempts: int, status: FinalizeStatus) -> None:
    entry = an_entry(attempts=attempts)
    assert entry.refused(ERROR, now=LATER, delay=DELAY, max_attempts=8) == after(
        entry,
        status,
        RetrySchedule(attempts=attempts + 1, next_attempt_at=LATER + DELAY, last_error="Storage:TIMEOUT"),
    )


def test_waiting_is_not_counted() -> None:
    entry = an_entry(attempts=2, last_error=str(ERROR))
    assert entry.deferred(until=NOW + DELAY, now=LATER) == after(
        entry,
        FinalizeStatus.PENDING,
        RetrySchedule(attempts=2, next_attempt_at=NOW + DELAY, last_error=str(ERROR)),
    )


def test_claim_that_is_given_back_is_uncounted() -> None:
    entry = an_entry(attempts=3, next_attempt_at=NOW + DELAY)
    assert entry.released(next_attempt_at=NOW, now=LATER) == after(
        entry, FinalizeStatus.PENDING, RetrySchedule(attempts=2, next_attempt_at=NOW)
    )


@pytest.mark.parametrize("status", [FinalizeStatus.PENDING, FinalizeStatus.QUARANTINED])
def test_done_forgets_the_last_error_unless_the_recording_was_lost(status: FinalizeStatus) -> None:
    entry = an_entry(status=status, attempts=3, last_error=str(ERROR))
    forgotten = RetrySchedule(attempts=3, next_attempt_at=NOW)
    assert entry.done(now=LATER) == after(entry, FinalizeStatus.DONE, forgotten)
    lost = AttemptError("Storage", "NOT_FOUND")
    assert entry.done(now=LATER, error=lost) == after(
        entry, FinalizeStatus.DONE, evolve(forgotten, last_error="Storage:NOT_FOUND")
    )


def test_quarantine_keeps_the_count_and_says_why() -> None:
    entry = an_entry(attempts=8)
    assert entry.quarantined(ERROR, now=LATER) == after(
        entry,
        FinalizeStatus.QUARANTINED,
        RetrySchedule(attempts=8, next_attempt_at=NOW, last_error="Storage:TIMEOUT"),
    )


@pytest.mark.parametrize("status", [FinalizeStatus.PENDING, FinalizeStatus.QUARANTINED])
def test_requeued_row_starts_over_and_keeps_the_time_of_its_last_progress(status: FinalizeStatus) -> None:
    entry = an_entry(status=status, attempts=8, last_error=str(ERROR))
    assert entry.requeued(now=LATER) == evolve(
        entry,
        status=FinalizeStatus.PENDING,
        schedule=RetrySchedule(attempts=0, next_attempt_at=LATER, last_error=str(ERROR)),
        version=entry.version + 1,
    )


STEPS: dict[str, Callable[[RecordingFinalize], object]] = {
    "claimed": lambda entry: entry.claimed(now=NOW, delay=DELAY),
    "retried": lambda entry: entry.retried(ERROR, now=NOW),
    "refused": lambda entry: entry.refused(ERROR, now=NOW, delay=DELAY, max_attempts=8),
    "deferred": lambda entry: entry.deferred(until=NOW, now=NOW),
    "released": lambda entry: entry.released(next_attempt_at=NOW, now=NOW),
    "quarantined": lambda entry: entry.quarantined(ERROR, now=NOW),
    "done": lambda entry: entry.done(now=NOW),
    "requeued": lambda entry: entry.requeued(now=NOW),
}


@pytest.mark.parametrize("step", STEPS)
def test_nothing_leads_out_of_done(step: str) -> None:
    with pytest.raises(IllegalTransition):
        STEPS[step](an_entry(status=FinalizeStatus.DONE, attempts=1))


@pytest.mark.parametrize("step", sorted(STEPS.keys() - {"done", "requeued"}))
def test_quarantined_row_waits_for_an_operator(step: str) -> None:
    with pytest.raises(IllegalTransition):
        STEPS[step](an_entry(status=FinalizeStatus.QUARANTINED, attempts=1))


def test_claim_that_was_never_counted_cannot_be_given_back() -> None:
    with pytest.raises(IllegalTransition):
        an_entry(attempts=0).released(next_attempt_at=NOW, now=NOW)
