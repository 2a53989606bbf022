"""What counts as an attempt, for every schedule: claims count, waiting and giving back do not."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from messenger_jobs.domain.errors import AttemptError
from messenger_jobs.domain.retry_schedule import RetrySchedule

from tests.property.strategies import attempt_errors, delays, instants, schedules


@given(schedule=schedules, now=instants, delay=delays)
def test_claim_that_is_given_back_leaves_no_trace(
    schedule: RetrySchedule, now: datetime, delay: timedelta
) -> None:
    claimed = schedule.claimed(now=now, delay=delay)

    assert claimed.released(next_attempt_at=schedule.next_attempt_at) == schedule


@given(schedule=schedules, now=instants, delay=delays, error=attempt_errors)
def test_attempt_counts_once_whether_it_fails_or_succeeds(
    schedule: RetrySchedule, now: datetime, delay: timedelta, error: AttemptError
) -> None:
    claimed = schedule.claimed(now=now, delay=delay)

    assert claimed.attempts == schedule.attempts + 1
    assert claimed.failed(error) == evolve(claimed, last_error=str(error))
    assert claimed.succeeded() == evolve(claimed, last_error=None)


@given(schedule=schedules, now=instants, delay=delays)
def test_claim_never_schedules_before_itself(
    schedule: RetrySchedule, now: datetime, delay: timedelta
) -> None:
    assert schedule.claimed(now=now, delay=delay).next_attempt_at - now == delay


@given(schedule=schedules, times=st.lists(instants, min_size=1, max_size=20))
def test_waiting_however_often_counts_nothing(schedule: RetrySchedule, times: list[datetime]) -> None:
    waiting = schedule
    for until in times:
        waiting = waiting.deferred(until=until)

    assert waiting == evolve(schedule, next_attempt_at=times[-1])


@given(
    schedule=schedules,
    now=instants,
    updated_at=instants,
    max_attempts=st.integers(min_value=1, max_value=100),
)
def test_requeue_opens_every_schedule_again_behind_its_last_write(
    schedule: RetrySchedule, now: datetime, updated_at: datetime, max_attempts: int
) -> None:
    requeued = schedule.requeued(now=now, updated_at=updated_at)

    assert not requeued.exhausted(max_attempts)
    assert requeued.next_attempt_at == (now if now > updated_at else updated_at + timedelta(microseconds=1))
    assert requeued.requeued(now=now, updated_at=updated_at) == requeued


@given(now=instants, delay=delays, max_attempts=st.integers(min_value=1, max_value=30))
def test_schedule_lasts_for_exactly_the_allowed_attempts(
    now: datetime, delay: timedelta, max_attempts: int
) -> None:
    schedule = RetrySchedule(attempts=0, next_attempt_at=now)
    claims = 0
    while not schedule.exhausted(max_attempts):
        schedule = schedule.claimed(now=now, delay=delay)
        claims += 1

    assert claims == max_attempts
