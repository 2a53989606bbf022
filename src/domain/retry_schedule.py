"""What every reliability row shares: how often it was tried, when it is tried next, why it failed last."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve, frozen

from .errors import AttemptError, IllegalTransition, InvariantViolation


@frozen(kw_only=True)
class RetrySchedule:
    """Attempts made, the earliest time of the next one (aware, UTC) and the last failure.

    Raises `InvariantViolation` for negative attempts or a naive time.
    """

    attempts: int
    next_attempt_at: datetime
    last_error: str | None = None

    def __attrs_post_init__(self) -> None:
        if self.attempts < 0:
            raise InvariantViolation("attempts must not be negative")
        if self.next_attempt_at.tzinfo is None:
            raise InvariantViolation("next_attempt_at must carry a time zone")

    def claimed(self, *, now: datetime, delay: timedelta) -> RetrySchedule:
        """Count an attempt made at ``now``; the next one waits for ``delay``."""
        return evolve(self, attempts=self.attempts + 1, next_attempt_at=now + delay)

    def failed(self, error: AttemptError) -> RetrySchedule:
        """Remember why the claimed attempt failed."""
        return evolve(self, last_error=str(error))

    def succeeded(self) -> RetrySchedule:
        """Forget the last failure."""
        return evolve(self, last_error=None)

    def deferred(self, *, until: datetime) -> RetrySchedule:
        """Wait without counting: waiting is not failing."""
        return evolve(self, next_attempt_at=until)

    def released(self, *, next_attempt_at: datetime) -> RetrySchedule:
        """Give a claim back: its attempt is uncounted. Raises `IllegalTransition` when none was counted."""
        if self.attempts == 0:
            raise IllegalTransition("a schedule without attempts has no claim to give back")
        return evolve(self, attempts=self.attempts - 1, next_attempt_at=next_attempt_at)

    def requeued(self, *, now: datetime, updated_at: datetime) -> RetrySchedule:
        """Start over at ``now`` on an operator's word; the last error stays for the record.

        Never at or before ``updated_at``, when the row was written last: the operator's clock may be behind that of a
        cycle which has tried the row, and which would then meet it again.
        """
        return evolve(self, attempts=0, next_attempt_at=max(now, _just_after(updated_at)))

    def exhausted(self, max_attempts: int) -> bool:
        """Whether automatic retries have ended."""
        return self.attempts >= max_attempts


def _just_after(moment: datetime) -> datetime:
    try:
        return moment + timedelta.resolution
    except OverflowError:
        return moment
