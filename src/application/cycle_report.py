"""What a cycle and its attempts come to: the closed vocabulary of logs, metrics and summaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from attrs import field, frozen


class Outcome(StrEnum):
    """How one attempt ended."""

    PROVISIONED = "provisioned"
    """The deal's chat is ready."""
    RETRIED = "retried"
    """The attempt counted and failed; another one follows."""
    FAILED = "failed"
    """The deal's last allowed attempt failed (poison), or the recording is lost."""
    DUPLICATE = "duplicate"
    """The deal is known: its intent was tried, or is finished, and is not the message's business any more."""
    SKIPPED = "skipped"
    """Somebody else has the row, or it is no longer due: nothing done, nothing counted."""
    ROLLED_BACK = "rolled_back"
    """Infrastructure failed: the row is as before, nothing counted."""
    RECONCILED = "reconciled"
    """The recording's file was found and adopted."""
    REPUBLISHED = "republished"
    """The recording was available, and is announced now."""
    CLOSED = "closed"
    """Somebody else finished the recording."""
    DEFERRED = "deferred"
    """Too early: waits, uncounted."""
    QUARANTINED = "quarantined"
    """No further automatic attempt without an operator."""
    RELEASED = "released"
    """Storage as a whole could not be asked: the claim was given back, uncounted."""


class CycleEnd(StrEnum):
    """Why a cycle ended."""

    COMPLETED = "completed"
    """No due row is left."""
    OUT_OF_TIME = "out_of_time"
    """``max_run_duration`` is over; the rest is the next tick's."""
    SKIPPED = "skipped"
    """Another runner holds the lock."""
    STOPPED = "stopped"
    """The worker was asked to stop."""
    LOCK_LOST = "lock_lost"
    """The run lock is not known to be held any more."""
    ABORTED = "aborted"
    """The database is gone, or something needs a person."""


@frozen(kw_only=True)
class Cycle:
    """One run of a job: ``as_of`` is read once, at its start, and used for selection.

    ``may_begin`` says whether something that has not begun still may, for a row in hand that had to wait for it.
    """

    job: str
    run_id: UUID
    as_of: datetime
    may_begin: Callable[[], bool] = field(default=lambda: True, eq=False, repr=False)


@frozen(kw_only=True)
class AttemptReport:
    """What one attempt came to.

    ``subject`` holds the row's public ids by name (``deal_id``, ``chat_id``, ``recording_id``, ``session_id``,
    ``file_id``), ``attempts`` the count after it, ``error_code`` what is stored as ``last_error``.
    """

    outcome: Outcome
    subject: Mapping[str, UUID]
    attempts: int | None = None
    error_code: str | None = None


@frozen(kw_only=True)
class CycleReport:
    """What a cycle came to: its end, the number of attempts by outcome, and how long it took."""

    cycle: Cycle
    end: CycleEnd
    duration: timedelta
    counts: Mapping[Outcome, int] = field(factory=dict[Outcome, int])
    error_code: str | None = None
