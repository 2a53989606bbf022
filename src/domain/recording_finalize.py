"""The intent to finish a recording, and the life of that intent."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from attrs import evolve, frozen

from .call_recording import SessionKind
from .errors import AttemptError, IllegalTransition
from .retry_schedule import RetrySchedule


class FinalizeStatus(StrEnum):
    """State of the finalization; ``Done`` is terminal, ``Quarantined`` waits for an operator."""

    PENDING = "Pending"
    DONE = "Done"
    QUARANTINED = "Quarantined"


@frozen(kw_only=True)
class RecordingFinalize:
    """A row of ``messenger.recording_finalize_attempts``.

    Every transition returns the next value with ``version`` raised by one, and raises `IllegalTransition` unless the
    row is ``Pending`` (`done` and `requeued` also accept ``Quarantined``). Nothing leads out of ``Done``.
    """

    id: UUID
    recording_id: UUID
    session_kind: SessionKind
    session_id: UUID
    status: FinalizeStatus
    schedule: RetrySchedule
    created_at: datetime
    updated_at: datetime
    version: int

    def is_due(self, *, as_of: datetime) -> bool:
        """Whether a cycle started at ``as_of`` takes this row. The SQL twin is the candidate query."""
        return self.status is FinalizeStatus.PENDING and self.schedule.next_attempt_at <= as_of

    def claimed(self, *, now: datetime, delay: timedelta) -> RecordingFinalize:
        """Count an attempt before its risky part; until ``now + delay`` the schedule is the lease."""
        return self._next(FinalizeStatus.PENDING, self.schedule.claimed(now=now, delay=delay), now)

    def retried(self, error: AttemptError, *, now: datetime) -> RecordingFinalize:
        """The claimed attempt failed; the schedule set by the claim stands."""
        return self._next(FinalizeStatus.PENDING, self.schedule.failed(error), now)

    def refused(
        self, error: AttemptError, *, now: datetime, delay: timedelta, max_attempts: int
    ) -> RecordingFinalize:
        """Count an attempt that fails at once: claimed and failed in one step, ``Quarantined`` when it was the last."""
        schedule = self.schedule.claimed(now=now, delay=delay).failed(error)
        last = schedule.exhausted(max_attempts)
        return self._next(FinalizeStatus.QUARANTINED if last else FinalizeStatus.PENDING, schedule, now)

    def deferred(self, *, until: datetime, now: datetime) -> RecordingFinalize:
        """Wait without counting."""
        return self._next(FinalizeStatus.PENDING, self.schedule.deferred(until=until), now)

    def released(self, *, next_attempt_at: datetime, now: datetime) -> RecordingFinalize:
        """Give the claim back, uncounted."""
        return self._next(
            FinalizeStatus.PENDING, self.schedule.released(next_attempt_at=next_attempt_at), now
        )

    def done(self, *, now: datetime, error: AttemptError | None = None) -> RecordingFinalize:
        """The recording is terminal; ``error`` tells why it was lost, if it was."""
        if self.status is FinalizeStatus.DONE:
            raise IllegalTransition("a finished finalization stays finished")
        schedule = self.schedule.succeeded() if error is None else self.schedule.failed(error)
        return evolve(
            self, status=FinalizeStatus.DONE, schedule=schedule, updated_at=now, version=self.version + 1
        )

    def quarantined(self, error: AttemptError, *, now: datetime) -> RecordingFinalize:
        """No further automatic attempt; the recording keeps its status."""
        return self._next(FinalizeStatus.QUARANTINED, self.schedule.failed(error), now)

    def requeued(self, *, now: datetime) -> RecordingFinalize:
        """Automatic attempts start over on an operator's word. Raises `IllegalTransition` when ``Done``."""
        if self.status is FinalizeStatus.DONE:
            raise IllegalTransition("a finished finalization stays finished")
        return evolve(
            self,
            status=FinalizeStatus.PENDING,
            schedule=self.schedule.requeued(now=now, updated_at=self.updated_at),
            version=self.version + 1,
        )

    def _next(self, status: FinalizeStatus, schedule: RetrySchedule, now: datetime) -> RecordingFinalize:
        if self.status is not FinalizeStatus.PENDING:
            raise IllegalTransition(f"a finalization that is {self.status.value} takes no further step")
        return evolve(self, status=status, schedule=schedule, updated_at=now, version=self.version + 1)
