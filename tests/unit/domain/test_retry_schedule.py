"""The schedule that every reliability row carries: what counts as an attempt, and what does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from messenger_jobs.domain.errors import AttemptError, IllegalTransition, InvariantViolation
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.support.builders import NOW

LATER = NOW + timedelta(minutes=7)
REFUSED = AttemptError("ProvisionGuard", "NO_MEMBERS")


def a_schedule(*, attempts: int = 3, last_error: str | None = "Storage:TIMEOUT") -> RetrySchedule:
    return RetrySchedule(attempts=attempts, next_attempt_at=NOW, last_error=last_error)


def test_claim_counts_the_attempt_and_waits_from_the_moment_it_was_made() -> None:
    claimed = a_schedule(attempts=3).claimed(now=LATER, delay=timedelta(seconds=48))

    assert claimed == RetrySchedule(
        attempts=4, next_attempt_at=LATER + timedelta(seconds=48), last_error="Storage:TIMEOUT"
    )


def test_failure_is_remembered_as_class_and_code_and_counts_nothing_further() -> None:
    assert a_schedule(last_error=None).failed(REFUSED) == a_schedule(last_error="ProvisionGuard:NO_MEMBERS")


def test_success_forgets_the_last_error() -> None:
    assert a_schedule().succeeded() == a_schedule(last_error=None)


def test_deferral_waits_without_counting() -> None:
    assert a_schedule(attempts=3).deferred(until=LATER) == RetrySchedule(
        attempts=3, next_attempt_at=LATER, last_error="Storage:TIMEOUT"
    )


def test_claim_given_back_is_uncounted() -> None:
    assert a_schedule(attempts=1).released(next_attempt_at=LATER) == RetrySchedule(
        attempts=0, next_attempt_at=LATER, last_error="Storage:TIMEOUT"
    )


def test_nothing_can_be_given_back_before_the_first_claim() -> None:
    with pytest.raises(IllegalTransition, match="claim"):
        a_schedule(attempts=0).released(next_attempt_at=LATER)


def test_requeue_starts_over_at_once_and_keeps_the_last_error_for_the_record() -> None:
    assert a_schedule(attempts=8).requeued(now=LATER, updated_at=NOW) == RetrySchedule(
        attempts=0, next_attempt_at=LATER, last_error="Storage:TIMEOUT"
    )


@pytest.mark.parametrize("operators_clock", [NOW, LATER])
def test_requeue_by_a_clock_that_is_behind_starts_over_just_after_the_last_write(
    operators_clock: datetime,
) -> None:
    requeued = a_schedule().requeued(now=operators_clock, updated_at=LATER)

    assert requeued.next_attempt_at == LATER + timedelta(microseconds=1)


def test_requeue_of_a_row_from_the_end_of_time_is_possible() -> None:
    end_of_time = datetime.max.replace(tzinfo=UTC)

    assert a_schedule().requeued(now=NOW, updated_at=end_of_time).next_attempt_at == end_of_time


@pytest.mark.parametrize(("attempts", "exhausted"), [(0, False), (7, False), (8, True), (9, True)])
def test_schedule_is_exhausted_from_the_last_allowed_attempt_on(attempts: int, exhausted: bool) -> None:
    assert a_schedule(attempts=attempts).exhausted(8) is exhausted


def test_new_schedule_has_no_last_error() -> None:
    assert RetrySchedule(attempts=0, next_attempt_at=NOW).last_error is None


def test_negative_attempts_are_refused() -> None:
    with pytest.raises(InvariantViolation, match="attempts"):
        RetrySchedule(attempts=-1, next_attempt_at=NOW)


def test_time_without_a_zone_is_refused_however_it_gets_in() -> None:
    naive = NOW.replace(tzinfo=None)

    with pytest.raises(InvariantViolation, match="time zone"):
        RetrySchedule(attempts=0, next_attempt_at=naive)
    with pytest.raises(InvariantViolation, match="time zone"):
        a_schedule().deferred(until=naive)
